"""`tsugi serve` for tests that look at it from outside, and where other programs are installed."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time


def place(variable):
    """Where something is installed; None when it is not."""
    value = os.environ.get(variable)
    return pathlib.Path(value) if value else None


class Gateway:
    """`tsugi serve` in a folder of its own, ended with the block."""

    def __init__(self, tsugi, servers, more=None, **settings):
        self.folder = tempfile.TemporaryDirectory(prefix="tsugi-clients-")
        path = pathlib.Path(self.folder.name)
        config = path / "tsugi.json"
        config.write_text(json.dumps({"servers": servers, "gateway": {"listen": "127.0.0.1:0"} | settings} | (more or {})))
        self.log = path / "log"
        environment = dict(os.environ, XDG_STATE_HOME=str(path / "state"))
        command = [tsugi, "serve", "--config", str(config)]
        self.process = subprocess.Popen(command, stderr=self.log.open("w"), env=environment)

    def __enter__(self):
        return self

    def address(self, names):
        """Where it listens, once all servers are connected."""
        for _ in range(1200):
            text = self.log.read_text()
            if all(f"{name}: connected" in text for name in names):
                return text.split("listening on ", 1)[1].split()[0]
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        sys.exit(f"the gateway does not start: {self.log.read_text()}")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.folder.cleanup()
