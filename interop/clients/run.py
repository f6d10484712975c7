#!/usr/bin/env python3
"""Runs other people's MCP clients against `tsugi serve` in front of a legacy and a modern server.

  interop/clients/run.py [TSUGI]      TSUGI is the program, target/debug/tsugi if left out

Prints a table of clients and features. What is tried with them is in interop/clients; where they are installed is
told by the variables that scripts/test-env prints. Exits with 1 when a feature fails, 0 otherwise.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CLIENTS = ROOT / "interop/clients"
sys.dont_write_bytecode = True
sys.path.insert(0, str(CLIENTS))
from gateway import Gateway, place  # noqa: E402  (it lies beside the clients)

FEATURES = ["list", "call", "read", "get", "progress", "elicit", "cancel"]
MODERN = "2026-07-28"


def servers():
    """The legacy server and the modern one."""
    programs = {"old": ("TSUGI_TEST_PY1", "server_legacy.py"), "new": ("TSUGI_TEST_PY", "server_modern.py")}
    return [
        {"name": name, "command": str(place(variable) / "bin/python"), "args": [str(CLIENTS / script)]}
        for name, (variable, script) in programs.items()
    ]


def clients(url):
    """Every client: its name, the variable that says where it is, and how to run it."""
    node = place("TSUGI_TEST_NODE")
    scripts = node / "clients" if node else None
    if scripts:
        # Node looks for packages beside the script.
        shutil.rmtree(scripts, ignore_errors=True)
        scripts.mkdir()
        for script in CLIENTS.glob("*.mjs"):
            shutil.copy(script, scripts)

    def python(variable, script, *arguments):
        return place(variable) and [str(place(variable) / "bin/python"), str(CLIENTS / script), url, *arguments]

    def typescript(script, *arguments):
        return scripts and ["node", str(scripts / script), url, *arguments]

    rmcp = ROOT / "target/debug/examples/rmcp_client"
    return [
        ("TypeScript SDK 1.x", "TSUGI_TEST_NODE", typescript("typescript_1.mjs")),
        ("TypeScript SDK 2.x, legacy", "TSUGI_TEST_NODE", typescript("typescript_2.mjs", "legacy")),
        ("TypeScript SDK 2.x, modern", "TSUGI_TEST_NODE", typescript("typescript_2.mjs", MODERN)),
        ("Python SDK 1.x", "TSUGI_TEST_PY1", python("TSUGI_TEST_PY1", "python_1.py")),
        ("Python SDK 2.x, legacy", "TSUGI_TEST_PY", python("TSUGI_TEST_PY", "python_2.py", "legacy")),
        ("Python SDK 2.x, modern", "TSUGI_TEST_PY", python("TSUGI_TEST_PY", "python_2.py", MODERN)),
        ("Inspector, legacy", "TSUGI_TEST_NODE", typescript("inspector.mjs", "legacy")),
        ("Inspector, modern", "TSUGI_TEST_NODE", typescript("inspector.mjs", "modern")),
        ("rmcp, legacy", "the example rmcp_client", rmcp.exists() and [str(rmcp), url, "legacy"]),
        ("rmcp, modern", "the example rmcp_client", rmcp.exists() and [str(rmcp), url, "modern"]),
    ]


def run(command):
    """What a client reports: features with their errors, and what it wrote besides."""
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=environment)
    except subprocess.TimeoutExpired as error:
        return {}, f"it hangs: {error.stdout} {error.stderr}"
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"feature"')]
    found = {row["feature"]: row for row in rows}
    return found, done.stderr[-4000:] if done.returncode or any("error" in row for row in rows) else ""


def cell(row):
    """One word for a feature: what the client cannot do is told apart from what fails."""
    if row is None or "error" in row:
        return "FAILED"
    return "-" if row.get("cannot") else "ok"


def table(url):
    """Runs everybody and prints the table; true when nothing failed."""
    is_good = True
    print(f"{'':<28}" + "".join(f"{name:<10}" for name in FEATURES), flush=True)
    for name, needs, command in clients(url):
        if not command:
            print(f"skipped: {name}: {needs} is not there", flush=True)
            continue
        found, complaint = run(command)
        cells = [cell(found.get(feature)) for feature in FEATURES]
        print(f"{name:<28}" + "".join(f"{text:<10}" for text in cells), flush=True)
        for row in found.values():
            if "error" in row:
                print(f"  {row['feature']}: {row['error']}")
        if "FAILED" in cells:
            is_good = False
            print(complaint)
    return is_good


def main():
    tsugi = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "target/debug/tsugi")
    missing = [name for name in ("TSUGI_TEST_PY", "TSUGI_TEST_PY1") if not place(name)]
    if missing:
        print(f"skipped: real clients: {' and '.join(missing)} not set (scripts/test-env installs the servers)")
        return 0
    with Gateway(tsugi, servers()) as gateway:
        return 0 if table(gateway.address(["old", "new"]) + "/mcp") else 1


if __name__ == "__main__":
    sys.exit(main())
