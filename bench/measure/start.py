"""How soon `tsugi serve` listens and its servers are ready, and what it holds in memory when nothing happens."""
import json, os, subprocess, tempfile, time

from .peers import Running, Tsugi
from .process import LOADGEN, STDIO, TSUGI, free_port, weigh
from .turns import Program, median

MIB = 1 << 20
SESSIONS = 10_000
SLOW_MS = 2000


class SlowServers(Tsugi):
    """In front of servers that think for two seconds before they read their first message."""

    def command(self, work, port, up, n, tools):
        slow = {f"s{i + 1}": {"command": STDIO, "args": ["--start-ms", str(SLOW_MS)]} for i in range(n)}
        (work / "tsugi.json").write_text(json.dumps({"mcpServers": slow}))
        return [str(TSUGI), "serve", "--listen", f"127.0.0.1:{port}", "--config", str(work / "tsugi.json"), "--quiet"]


def built_in(folder):
    """`tsugi serve` with nothing configured: the built-in servers."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MCP_", "TSUGI_", "XDG_"))}
    return Program(TSUGI, "serve", "--listen", "127.0.0.1:PORT", cwd=folder,
                   env={**clean, "HOME": folder, "XDG_STATE_HOME": folder, "XDG_CONFIG_HOME": folder})


def measure(turns):
    idle = [idle_once() for _ in range(turns)]
    ready = [{n: ready_ms(n) for n in (1, 20)} for _ in range(turns)]
    return {"listening_ms": [turn["listening_ms"] for turn in idle], "idle_mib": [turn["mib"] for turn in idle],
            "idle_parts": idle[-1]["parts"], "ready_alone_ms": [turn[1] for turn in ready],
            "ready_20_ms": [turn[20] for turn in ready], "sessions": sessions()}


def idle_once():
    with tempfile.TemporaryDirectory() as folder:
        gateway = built_in(folder)
        try:
            time.sleep(3)
            return {"listening_ms": gateway.listening_ms, "mib": weigh(gateway.proc.pid)["rss"] / MIB,
                    "parts": memory_parts(gateway.proc.pid)}
        finally:
            gateway.close()


def memory_parts(pid):
    """MiB of a process by kind: its own, and those of files, which are mostly its program."""
    with open(f"/proc/{pid}/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    return {kind: int(lines[kind].split()[0]) / 1024 for kind in ("RssAnon", "RssFile")}


def ready_ms(n):
    """Milliseconds from the start until the tools of all `n` slow servers are listed."""
    gateway = Running(SlowServers(), free_port(), "stdio", n=n, mode="modern")
    try:
        return gateway.wait(60).get("ms")
    finally:
        gateway.close()


def sessions():
    """Memory with many legacy sessions that were opened and are never used."""
    with tempfile.TemporaryDirectory() as folder:
        gateway = built_in(folder)
        holder = subprocess.Popen([LOADGEN, "sessions", "--url", gateway.url(), "--count", str(SESSIONS)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            told = json.loads(holder.stdout.readline())
            time.sleep(1)
            return {**told, "mib": weigh(gateway.proc.pid)["rss"] / MIB, "parts": memory_parts(gateway.proc.pid)}
        finally:
            holder.stdin.close()
            holder.wait()
            gateway.close()


def lines(told):
    parts, held = told["idle_parts"], told["sessions"]
    yield f"`tsugi serve` with the built-in servers listens {median(told['listening_ms']):.0f} ms after it was started."
    yield (f"Idle it holds {median(told['idle_mib']):.1f} MiB: {parts['RssAnon']:.1f} anonymous and {parts['RssFile']:.1f} "
           "file-backed, which is the part of its program that was used.")
    yield (f"With {held['opened']:,} unused legacy sessions it holds {held['mib']:.1f} MiB "
           f"({held['parts']['RssAnon']:.1f} anonymous); opening them took {held['secs']:.1f} s"
           + (f"; {held['first_error']}." if held["first_error"] else "."))
    yield (f"One stdio server that takes {SLOW_MS / 1000:.0f} s to start is ready after {median(told['ready_alone_ms']):,.0f} ms, "
           f"twenty of them after {median(told['ready_20_ms']):,.0f} ms.")


def targets(told):
    yield "listening after the process started, ms", median(told["listening_ms"]), 50, True
    yield "resident memory idle, built-in servers, MiB", median(told["idle_mib"]), 20, True
    held = told["sessions"]
    full = held["mib"] if held["opened"] == SESSIONS else None
    yield "resident memory with 10,000 idle legacy sessions, MiB", full, 150, True
    pairs = zip(told["ready_20_ms"], told["ready_alone_ms"])
    yield ("20 stdio servers ready ÷ the slowest alone",
           median(all_of / alone for all_of, alone in pairs if all_of and alone), 1.5, True)
