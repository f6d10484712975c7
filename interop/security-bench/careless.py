"""A gateway that does everything wrong: the control that each attack must succeed against.

  careless.py UPSTREAM FOLDER

Prints its port. It asks for no credential, believes what requests say about themselves, looks a name up once to check it
and lets the server look it up again, replaces `${NAME}` in arguments, passes lists on as they come, lets the last server
have a name, and writes arguments, but no calls, into its audit log.
"""

import base64
import http.server
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import threading
import urllib.parse

UPSTREAM, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
SERVERS = ["desk", "acme", "globex", "memory", "reach", "pinned", "first", "second"]
BARE = {"first", "second"}


class Upstream:
    """One server over stdio, asked by one thread at a time."""

    def __init__(self, name):
        command = [sys.executable, UPSTREAM, name, str(FOLDER / "journal")]
        self.name, self.lock, self.count = name, threading.Lock(), 0
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask("initialize", {})

    def ask(self, method, params):
        with self.lock:
            self.count += 1
            request = {"jsonrpc": "2.0", "id": self.count, "method": method, "params": params}
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            while True:
                message = json.loads(self.process.stdout.readline())
                if message.get("id") == self.count:
                    return {key: message[key] for key in ("result", "error") if key in message}


UPSTREAMS = {name: Upstream(name) for name in SERVERS}


def claims(headers):
    """What a token says; its signature, its end and its audience are not looked at."""
    try:
        body = headers.get("Authorization", "").split(".")[1]
        return json.loads(base64.urlsafe_b64decode(body + "=="))
    except (IndexError, ValueError):
        return {}


def tenant_of(headers, params):
    person = headers.get("X-Principal")
    own = {"alice": "acme", "bob": "globex"}.get(person, claims(headers).get("org", "acme"))
    meta, arguments = params.get("_meta") or {}, params.get("arguments") or {}
    return arguments.get("tenant") or headers.get("X-Tenant") or meta.get("tenant") or own


def public_tools():
    found = []
    for name, upstream in UPSTREAMS.items():
        for tool in upstream.ask("tools/list", {})["result"]["tools"]:
            found.append(tool | {"name": tool["name"] if name in BARE else f"{name}__{tool['name']}"})
    return found


def find(headers, params):
    """The server that a public name belongs to. The last one that has it wins."""
    server, _, own = params["name"].partition("__")
    if not own:
        having = [name for name in SERVERS if name in BARE]
        listed = [name for name in having
                  if server in [tool["name"] for tool in UPSTREAMS[name].ask("tools/list", {})["result"]["tools"]]]
        return listed[-1], server
    return (tenant_of(headers, params) if own == "read_doc" else server), own


def call(headers, params):
    server, own = find(headers, params)
    arguments = params.get("arguments") or {}
    for key, value in arguments.items():
        arguments[key] = re.sub(r"\$\{(\w+)\}", lambda found: os.environ.get(found[1], ""), str(value))
    if "url" in arguments:
        # Checked now, and looked up again by the server that connects.
        try:
            socket.getaddrinfo(urllib.parse.urlsplit(arguments["url"]).hostname, None, socket.AF_INET)
        except OSError:
            pass
    with (FOLDER / "audit.jsonl").open("a") as log:
        log.write(json.dumps({"kind": "trace", "arguments": arguments}) + "\n")
    return UPSTREAMS[server].ask("tools/call", {"name": own, "arguments": arguments})


def answer(headers, message, only):
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        return UPSTREAMS["desk"].ask(method, params)
    if method == "tools/list":
        return {"result": {"tools": public_tools()}}
    if method == "tools/call" and only:
        return UPSTREAMS[only].ask(method, params)
    if method == "tools/call":
        return call(headers, params)
    if "name" in params:
        params = params | {"name": params["name"].partition("__")[2] or params["name"]}
    return UPSTREAMS["desk"].ask(method, params)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        only = self.path.split("/")[2] if self.path.startswith("/servers/") else None
        messages = body if isinstance(body, list) else [body]
        out = [{"jsonrpc": "2.0", "id": one["id"], **self.answer(one, only)} for one in messages if "id" in one]
        text = json.dumps(out if isinstance(body, list) else out[0] if out else {}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Mcp-Session-Id", "the-one-session")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def answer(self, message, only):
        try:
            return answer(self.headers, message, only)
        except (KeyError, IndexError):
            return {"error": {"code": -32602, "message": "there is no such thing"}}

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
try:
    server.serve_forever()
finally:
    for one in UPSTREAMS.values():
        one.process.stdin.close()
        one.process.wait(10)
