#!/usr/bin/env python3
"""Official clients sign in at an identity provider and call through `tsugi serve`, with the OAuth code that they come with.

  interop/sign-in/run.py [TSUGI]      TSUGI is the program, target/debug/tsugi if left out

Each client is given the address of the gateway and nothing else. It finds the provider, registers, has a person sign in
with Chromium, and calls. The verdict comes from the journal of the server behind the gateway, and from the audit log for
who called. Screenshots go to target/browser/. Exits with 1 when a client fails, 0 otherwise.
"""

import json
import os
import pathlib
import queue
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "interop/providers"))
import providers  # noqa: E402
from gateway import Gateway, place  # noqa: E402  (providers knows where it is)

MODERN = "2026-07-28"
UPSTREAM = ROOT / "interop/security-bench/upstream.py"
BROWSER = ROOT / "crates/tsugi/tests/browser"
PICTURES = ROOT / "target/browser"


class Lines:
    """A program, and the lines of JSON that it prints."""

    def __init__(self, command, **more):
        environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", NO_PROXY="127.0.0.1,localhost")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.PIPE, env=environment, **more)
        self.lines, self.noise = queue.Queue(), []
        threading.Thread(target=self.read, daemon=True).start()
        threading.Thread(target=lambda: self.noise.extend(self.process.stderr), daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                self.lines.put(json.loads(line))
        self.lines.put(None)

    def next(self, seconds=60):
        """The next line; None at the end, or when nothing comes for so long."""
        try:
            return self.lines.get(timeout=seconds)
        except queue.Empty:
            return None

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def clients(url, scripts):
    """Every client: its name, the variable that says where it is, and how to run it with a word to say."""

    def python(variable, script, *more):
        home = place(variable)
        return home and (lambda word: [str(home / "bin/python"), str(HERE / script), url, word, *more])

    def typescript(script, *more):
        return scripts and (lambda word: ["node", str(scripts / script), url, word, *more])

    rmcp = ROOT / "target/interop/debug/rmcp-sign-in"

    def rust(era):
        return rmcp.exists() and (lambda word: [str(rmcp), url, word, era])

    return [
        ("TypeScript SDK 1.x", "TSUGI_TEST_NODE", typescript("typescript_1.mjs")),
        ("TypeScript SDK 2.x, legacy", "TSUGI_TEST_NODE", typescript("typescript_2.mjs", "legacy")),
        ("TypeScript SDK 2.x, modern", "TSUGI_TEST_NODE", typescript("typescript_2.mjs", MODERN)),
        ("Python SDK 1.x", "TSUGI_TEST_PY1", python("TSUGI_TEST_PY1", "python_1.py")),
        ("Python SDK 2.x, legacy", "TSUGI_TEST_PY", python("TSUGI_TEST_PY", "python_2.py", "legacy")),
        ("Python SDK 2.x, modern", "TSUGI_TEST_PY", python("TSUGI_TEST_PY", "python_2.py", MODERN)),
        ("rmcp, legacy", "what `./test` builds in target/interop", rust("legacy")),
        ("rmcp, modern", "what `./test` builds in target/interop", rust("modern")),
    ]


def sign_in(command, browser):
    """Runs a client; what it said, and what the person saw."""
    client, pages, said = Lines(command), [], None
    while line := client.next():
        if "open" in line:
            browser.process.stdin.write(line["open"] + "\n")
            browser.process.stdin.flush()
            pages = (browser.next() or {}).get("pages", [])
            if not pages:
                sys.exit(f"the browser ended: {''.join(browser.noise)}")
        said = line.get("said", said)
    client.end()
    return said, pages, "".join(client.noise)[-3000:]


def table(gateway, url, journal, audit, browser):
    """Prints a row for each client; true when nothing failed."""
    is_good = True
    node = place("TSUGI_TEST_NODE")
    scripts = node and node / "sign-in"
    if scripts:
        # Node looks for packages beside the script.
        shutil.rmtree(scripts, ignore_errors=True)
        shutil.copytree(HERE, scripts)
    for name, needs, command in clients(url, scripts):
        if not command:
            print(f"skipped: {name}: {needs} is not there", flush=True)
            continue
        word = secrets.token_hex(8)
        before = audit.read_text().count('"identity":"subject:idp:alice"') if audit.exists() else 0
        said, pages, noise = sign_in(command(word), browser)
        count = journal.read_text().count(word)
        named = audit.read_text().count('"identity":"subject:idp:alice"') - before
        is_right = said == f"desk has {word}" and count == 1 and named >= 2 and len(pages) >= 3
        print(f"{name:<28}{len(pages)} pages, {count} calls, {named} lines of alice   {'ok' if is_right else 'FAILED'}", flush=True)
        if not is_right:
            is_good = False
            print(pages, said, noise, gateway.log.read_text()[-2000:])
    return is_good


def main():
    tsugi = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "target/debug/tsugi")
    for what, is_there in {
        "oidc-provider": providers.NpmProvider.is_there(),
        "playwright-core": (BROWSER / "node_modules/playwright-core").exists(),
        "Chromium": shutil.which(os.environ.get("TSUGI_CHROMIUM", "chromium")),
    }.items():
        if not is_there:
            print(f"skipped: official clients sign in: {what} is not there")
            return 0
    PICTURES.mkdir(parents=True, exist_ok=True)
    port = providers.free_port()
    with tempfile.TemporaryDirectory(prefix="tsugi-sign-in-") as folder, providers.NpmProvider(folder) as provider:
        folder = pathlib.Path(folder)
        provider.start()
        journal, audit = folder / "journal", folder / "audit.jsonl"
        journal.touch()
        server = {"name": "desk", "command": sys.executable, "args": [str(UPSTREAM), "desk", str(journal)]}
        issuer = {"name": "idp", "issuer": provider.issuer, "insecureLoopback": True}
        # The clients go by this address, so it must be the one that is listened on.
        settings = {"listen": f"127.0.0.1:{port}", "publicUrl": f"http://127.0.0.1:{port}",
                    "auth": {"issuers": [issuer], "scopes": {"base": ["mcp"]}}}
        # Node looks for packages beside the script.
        script = BROWSER / "node_modules/sign-in.mjs"
        shutil.copy(HERE / "browser.mjs", script)
        browser = Lines(["node", str(script), str(PICTURES)])
        try:
            with Gateway(tsugi, [server], {"audit": {"file": str(audit)}}, **settings) as gateway:
                url = gateway.address(["desk"]) + "/mcp"
                return 0 if table(gateway, url, journal, audit, browser) else 1
        finally:
            browser.end()
            script.unlink()


if __name__ == "__main__":
    sys.exit(main())
