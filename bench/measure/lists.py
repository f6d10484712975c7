"""How fast the tools of twenty servers are listed, beside a server that answers with the same bytes from memory."""
import contextlib, json, tempfile
import urllib.request

from .gateway import ERAS, META, as_plain_post
from .peers import Running, Tsugi
from .process import FLOOR, free_port
from .turns import Program, load, of, ratio, take

SERVERS, TOOLS = 20, 50


def measure(turns):
    with contextlib.ExitStack() as stack:
        keep = lambda program: stack.enter_context(contextlib.closing(program))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        gateway = keep(Running(Tsugi(), free_port(), "stdio", n=SERVERS, tools=TOOLS, mode="modern")).ready()
        floors = {mode: keep(same_bytes(gateway, mode, f"{folder}/{mode}.json")) for mode in ERAS}
        return take(turns, contenders(gateway, floors))


def same_bytes(gateway, mode, path):
    """A server that answers everything with what the gateway answers."""
    with open(path, "wb") as file:
        file.write(Poster(gateway.peer.urls(gateway.port, 1)[0], mode)("tools/list"))
    return Program(FLOOR, "--port", "PORT", "file", path)


def contenders(gateway, floors):
    out = {}
    for mode, floor in floors.items():
        plain = as_plain_post(floor.url("/"), mode, "tools/list")
        out[f"same bytes, {mode}"] = lambda floor=floor, plain=plain: load(floor.proc.pid, *plain, concurrency=16)
        asked = ["--method", "tools/list", *gateway.peer.target(gateway.port, mode, n=SERVERS)]
        out[f"tsugi, {mode}"] = lambda asked=asked: load(gateway.proc.pid, *asked, concurrency=16)
    return out


class Poster:
    """The little of a client that asking one question takes."""

    def __init__(self, url, mode):
        self.url, self.mode, self.headers = url, mode, {}
        if mode == "legacy":
            info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "0.1.0"}}
            self("initialize", **info)

    def __call__(self, method, **params):
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream", **self.headers}
        if self.mode == "modern":
            params["_meta"] = META
            headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
        body = json.dumps({"jsonrpc": "2.0", "id": 100000, "method": method, "params": params}).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url, body, headers), timeout=30) as response:
            if session := response.headers.get("mcp-session-id"):
                self.headers = {"mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}
            return response.read()


def table(rounds):
    yield "| who | KB | tools in it | lists/s | CPU µs per list | p50 ms | p99 ms |"
    yield "|---|---|---|---|---|---|---|"
    for name in sorted(rounds[0]):
        tools = of(rounds, name, "tools")
        yield (f"| {name} | {of(rounds, name, 'bytes') / 1000:,.0f} | {f'{tools:.0f}' if tools else ''} "
               f"| {of(rounds, name, 'rate'):,.0f} | {of(rounds, name, 'cpu'):,.0f} "
               f"| {of(rounds, name, 'p50') / 1000:.1f} | {of(rounds, name, 'p99') / 1000:.1f} |")


def targets(rounds):
    for mode in ERAS:
        yield (f"tools/list of {SERVERS} × {TOOLS}, rate ÷ a static answer of the same bytes, {mode}",
               ratio(rounds, f"tsugi, {mode}", f"same bytes, {mode}", "rate"), 0.5, False)
