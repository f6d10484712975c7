#!/usr/bin/env python3
"""Shows tokens of three independent identity providers to `tsugi serve`: good ones, and those that must be refused.

  interop/providers/run.py [TSUGI]      TSUGI is the program, target/debug/tsugi if left out

The verdict comes from the journal of the server behind the gateway. Exits with 1 when a row fails, 0 otherwise; a provider
that is not installed is skipped with a line that says so.
"""

import json
import os
import pathlib
import secrets
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
import providers  # noqa: E402  (it lies beside this file)
from gateway import Gateway  # noqa: E402  (providers knows where it is)

PUBLIC_URL = "https://mcp.example"
UPSTREAM = ROOT / "interop/security-bench/upstream.py"


class Door:
    """The gateway as a caller with a token sees it, and the journal behind it."""

    def __init__(self, url, journal):
        self.url, self.journal = url, journal

    def show(self, token, path="/mcp"):
        """The status of a call with this token, and how often the server received it."""
        word = secrets.token_hex(8)
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "providers", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        name = "desk__echo" if path == "/mcp" else "echo"
        params = {"name": name, "arguments": {"message": word}, "_meta": meta}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": name,
            "Authorization": f"Bearer {token}",
        }
        status, _, _ = providers.ask(self.url + path, body, headers)
        return status, self.journal.read_text().count(word)


def changed(token, position):
    """The token with one character of a part changed for another."""
    parts = token.split(".")
    middle = len(parts[position]) // 2
    letter = "A" if parts[position][middle] != "A" else "B"
    parts[position] = parts[position][:middle] + letter + parts[position][middle + 1 :]
    return ".".join(parts)


def rows(provider, other, door):
    """Every token with what must come of it: `(what, token, is it accepted)`. What is done in between happens when the
    next row is asked for."""
    ours = f"{PUBLIC_URL}/mcp"
    good = provider.token(ours)
    yield "a token for this address", good, True, "/mcp"
    yield "a token for the whole gateway", provider.token(PUBLIC_URL), True, "/mcp"
    yield "a token for `/mcp` at another address", good, False, "/servers/desk/mcp"
    yield "wrong audience", provider.token("https://other.example"), False, "/mcp"
    # The same program with the same key, at another address.
    other.start(provider.key)
    yield "wrong issuer, same key", other.token(ours), False, "/mcp"
    other.stop()
    provider.start(seconds=1)
    short = provider.token(ours)
    until(lambda: time.time() > providers.claims(short)["exp"] + 2)
    yield "expired", short, False, "/mcp"
    provider.start(provider.new_key())
    new = provider.token(ours)
    yield "signed with the key after a rotation", new, True, "/mcp"
    yield "signed with the key before it", good, False, "/mcp"
    yield "changed claims", changed(new, 1), False, "/mcp"
    yield "changed signature", changed(new, 2), False, "/mcp"
    provider.stop()
    yield "the provider is down, and its keys are known", None, True, "/mcp"


def until(condition):
    while not condition():
        time.sleep(0.05)


def check(kind, folder, door, provider):
    """Prints the rows of one provider; true when all are as they must be."""
    is_good, last = True, None
    with kind(folder / "other") as other:
        for what, token, is_accepted, path in rows(provider, other, door):
            token = token or last
            last = token if is_accepted else last
            status, count = door.show(token, path)
            is_right = (status, count) == (200, 1) if is_accepted else (status in (401, 403) and count == 0)
            is_good = is_good and is_right
            print(f"  {what:<46}{status:<6}{count} calls   {'ok' if is_right else 'FAILED'}", flush=True)
    return is_good


def main():
    tsugi = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "target/debug/tsugi")
    there = [kind for kind in providers.ALL if kind.is_there()]
    for kind in providers.ALL:
        if kind not in there:
            print(f"skipped: tokens of {kind.name}: {kind.needs} is not there")
    is_good = True
    for kind in there:
        with tempfile.TemporaryDirectory(prefix="tsugi-providers-") as folder, kind(pathlib.Path(folder)) as provider:
            folder = pathlib.Path(folder)
            provider.start()
            journal = folder / "journal"
            server = {"name": "desk", "command": sys.executable, "args": [str(UPSTREAM), "desk", str(journal)]}
            issuer = {"name": "idp", "issuer": provider.issuer, "insecureLoopback": True, "skew": "1s"}
            auth = {"issuers": [issuer], "scopes": {"base": ["mcp"]}}
            with Gateway(tsugi, [server], publicUrl=PUBLIC_URL, auth=auth) as gateway:
                print(kind.name, flush=True)
                door = Door(gateway.address(["desk"]), journal)
                if not check(kind, folder, door, provider):
                    is_good = False
                    print(gateway.log.read_text()[-4000:], os.linesep, provider.log.read_text()[-2000:])
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
