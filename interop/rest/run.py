#!/usr/bin/env python3
"""Sends what schemathesis makes of /openapi.json, right and wrong, to `tsugi serve` in front of real servers.

  interop/rest/run.py [TSUGI]      TSUGI is the program, target/debug/tsugi if left out

No answer may be a 5xx that is not a tool's own, and every answer must be as the description says.
Where schemathesis and the servers are installed is told by the variables that scripts/test-env prints.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "interop/clients"))
from gateway import Gateway, place  # noqa: E402  (it lies beside the clients)

CHECKS = "only_tools_fail,status_code_conformance,content_type_conformance,response_schema_conformance"
# These do what they are told: count for hours, or wait for ever.
ENDLESS = "/(count|wait)$"


def servers(folder):
    """Real servers of both eras with tools that do no harm, and those of ours that fail and ask."""
    node, modern, legacy = place("TSUGI_TEST_NODE"), place("TSUGI_TEST_PY"), place("TSUGI_TEST_PY1")
    clients = ROOT / "interop/clients"
    found = []
    if node:
        script = node / "node_modules/@modelcontextprotocol/server-memory/dist/index.js"
        variables = {"MEMORY_FILE_PATH": f"{folder}/memory.jsonl"}
        found.append({"name": "memory", "command": "node", "args": [str(script)], "env": variables})
    if modern:
        found.append({"name": "time", "command": str(modern / "bin/mcp-server-time")})
        found.append({"name": "new", "command": str(modern / "bin/python"), "args": [str(clients / "server_modern.py")]})
    if legacy:
        database = ["--db-path", f"{folder}/rows.db"]
        found.append({"name": "sqlite", "command": str(legacy / "bin/mcp-server-sqlite"), "args": database})
        found.append({"name": "old", "command": str(legacy / "bin/python"), "args": [str(clients / "server_legacy.py")]})
    return found


def main():
    tsugi = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "target/debug/tsugi")
    program = place("TSUGI_TEST_SCHEMATHESIS")
    with tempfile.TemporaryDirectory(prefix="tsugi-rest-") as folder:
        chosen = servers(folder)
        if not program or not chosen:
            print("skipped: the REST face: schemathesis or the servers are not there (scripts/test-env installs them)")
            return 0
        with Gateway(tsugi, chosen) as gateway:
            address = gateway.address([server["name"] for server in chosen])
            command = [str(program), "run", f"{address}/openapi.json", "--checks", CHECKS, "--max-examples", "8"]
            command += ["--phases", "coverage,fuzzing", "--exclude-path-regex", ENDLESS, "--continue-on-failure"]
            command += ["--max-time", "30", "--request-timeout", "30", "--seed", "7", "--no-shrink", "--warnings", "off"]
            hooks = {"SCHEMATHESIS_HOOKS": "checks", "PYTHONPATH": str(ROOT / "interop/rest")}
            environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **hooks)
            return subprocess.run(command, cwd=folder, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
