"""What a call through the gateway costs: beside a bare server, beside a relay of bytes, and beside the back end itself."""
import contextlib, json

from .peers import Running, Tsugi
from .process import FLOOR, HTTP, STDIO, free_port
from .turns import Program, load, of, ratio, take

ERAS = ("modern", "legacy")
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "loadgen", "version": "0.1.0"},
        "io.modelcontextprotocol/clientCapabilities": {}}


def as_plain_post(url, mode, method, size=0, **params):
    """The request that the gateway gets, sent to a server that does not know what it means."""
    headers = ["mcp-session-id: 0123456789abcdef01234567", "mcp-protocol-version: 2025-11-25"]
    if mode == "modern":
        params["_meta"] = META
        headers = ["mcp-protocol-version: 2026-07-28", f"mcp-method: {method}"]
        headers += [f"mcp-name: {params['name']}"] if "name" in params else []
    body = json.dumps({"jsonrpc": "2.0", "id": 100000, "method": method, "params": params}, separators=(",", ":"))
    return ["--mode", "rest", "--url", url, "--body", body, "--size", size,
            *(word for header in headers for word in ("--header", header))]


def measure(turns):
    with contextlib.ExitStack() as stack:
        keep = lambda program: stack.enter_context(contextlib.closing(program))
        hello = keep(Program(FLOOR, "--port", "PORT", "hello"))
        relay = keep(Program(FLOOR, "--port", "PORT", "relay", STDIO))
        back = keep(Program(HTTP, "--port", "PORT"))
        gateway = keep(Running(Tsugi(), free_port(), "stdio", mode="modern")).ready()
        return {str(size): take(turns, contenders(size, hello, relay, back, gateway)) for size in (200, 1024, 102400)}


def contenders(size, hello, relay, back, gateway):
    """Who is measured with results of this size: the floors that a target is about, and the gateway, in both eras."""
    out = {}
    for mode in ERAS:
        call = {"name": "s1__echo", "arguments": {"size": size}}
        plain = as_plain_post(hello.url("/"), mode, "tools/call", min(size, 1024), **call)
        direct = ["--mode", mode, "--size", size, "--url"]
        if size == 1024:
            out[f"hello, {mode}"] = lambda plain=plain: load(hello.proc.pid, *plain)
        else:
            out[f"back end itself, {mode}"] = lambda direct=direct: load(back.proc.pid, *direct, back.url())
        if size > 1024:
            out[f"relay, {mode}"] = lambda direct=direct: load(relay.proc.pid, *direct, relay.url())
        through = gateway.peer.target(gateway.port, mode, size=size)
        out[f"tsugi, {mode}"] = lambda through=through: load(gateway.proc.pid, *through)
    return out


def table(parts):
    yield "| result | who | CPU µs per call | calls/s | p50 ms | p99 ms | errors |"
    yield "|---|---|---|---|---|---|---|"
    for size, rounds in parts.items():
        for name in sorted(rounds[0]):
            errors, calls = (sum(turn[name][what] for turn in rounds) for what in ("errors", "calls"))
            cpu, rate, p50, p99 = (of(rounds, name, what) or 0 for what in ("cpu", "rate", "p50", "p99"))
            yield (f"| {int(size):,} B | {name} | {cpu:.1f} | {rate:,.0f} | {p50 / 1000:.2f} | {p99 / 1000:.2f} "
                   f"| {errors} of {calls:,} |")


def targets(parts):
    """(what, value, limit, whether less is better) of every target that these numbers answer."""
    for mode in ERAS:
        yield (f"CPU per call ÷ bare hyper hello, 1 KiB, {mode}",
               ratio(parts["1024"], f"tsugi, {mode}", f"hello, {mode}", "cpu"), 2.0, True)
    for mode in ERAS:
        yield (f"CPU per call ÷ bytes-only relay, 100 KB, {mode}",
               ratio(parts["102400"], f"tsugi, {mode}", f"relay, {mode}", "cpu"), 1.5, True)
    for size, words, limit in (("200", "200 B", 0.6), ("102400", "100 KB", 0.5)):
        for mode in ERAS:
            yield (f"calls/s ÷ back end itself, {words}, {mode}",
                   ratio(parts[size], f"tsugi, {mode}", f"back end itself, {mode}", "rate"), limit, False)
