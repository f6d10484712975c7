"""Ours beside the other gateways: all of them are started, then every one is loaded for a moment, turn by turn."""
import re

from .peers import Running, pick
from .process import HTTP, ROOT, free_port, weigh
from .turns import Program, load, median, of, ratio, take

MIB = 1 << 20
CONCURRENCY, SIZES = (1, 16, 64), (200, 102400)
# Programs that start a process for each session, or compile while they run, get longer to warm up.
QUICK = {"tsugi": (0.5, 0.15), "mcp-proxy-rs": (0.5, 0.15), "direct": (0.4, 0.1)}
# The same program as another peer, in a slower way of working.
LEFT_OUT = {"supergateway-stateless", "agentgateway-log"}


def measure(turns, names=()):
    """The rounds by `peer|mode|callers|size`, memory by peer, and what did not start."""
    back, running, failed = Program(HTTP, "--port", "PORT"), {}, {}
    try:
        for peer in pick(names, "stdio"):
            if peer.name not in LEFT_OUT:
                start(peer, running, failed)
        idle = {name: weigh(run.proc.pid)["rss"] / MIB for name, run in running.items()}
        return {"rounds": take(turns, *cells(back, running)), "idle": idle, "failed": failed}
    finally:
        for program in (back, *running.values()):
            program.close()


def start(peer, running, failed):
    """Starts one, and lets every mode answer for a moment: what compiles while it runs is measured compiled."""
    run = running[peer.name] = Running(peer, free_port(), "stdio")
    told = run.wait(60)
    if not told.get("ok"):
        failed[peer.name] = str(told.get("last") or told)
        running.pop(peer.name).close()
        return
    for mode in peer.modes:
        load(run.proc.pid, *peer.target(run.port, mode), concurrency=4, seconds=0.8, warm_up=0)


def cells(back, running):
    """Those who are measured beside each other: all peers and the back end with as many callers and as large results."""
    for size in SIZES:
        for callers in CONCURRENCY:
            cell = {}
            for mode in ("legacy", "modern"):
                direct = ["--url", back.url(), "--mode", mode, "--size", size]
                cell[f"direct|{mode}|{callers}|{size}"] = turn("direct", back.proc.pid, callers, direct)
            for name, run in running.items():
                for mode in run.peer.modes:
                    target = run.peer.target(run.port, mode, size=size)
                    cell[f"{name}|{mode}|{callers}|{size}"] = turn(name, run.proc.pid, callers, target)
            yield cell


def turn(name, pid, callers, arguments):
    seconds, warm_up = QUICK.get(name, (0.7, 0.4))
    return lambda: load(pid, *arguments, concurrency=callers, seconds=seconds, warm_up=warm_up)


# ---- reading it --------------------------------------------------------------

def rows(told):
    """One dictionary per cell: those measured now, then those only measured earlier."""
    rounds, seen = told["rounds"], set()
    for key in rounds[0]:
        peer, mode, callers, size = key.split("|")
        if peer == "direct":
            continue
        seen.add(peer)
        direct = f"direct|{'modern' if mode == 'modern' else 'legacy'}|{callers}|{size}"
        memory = max(t[other]["rss"] for t in rounds for other in t if other.split("|")[0] == peer) / MIB
        yield {"peer": peer, "mode": mode, "callers": int(callers), "size": int(size), "now": True,
               "ratio": ratio(rounds, key, direct, "rate") or 0, "rate": of(rounds, key, "rate"),
               "p50": of(rounds, key, "p50"), "p99": of(rounds, key, "p99"), "cpu": of(rounds, key, "cpu"),
               "errors": sum(t[key]["errors"] for t in rounds), "calls": sum(t[key]["calls"] for t in rounds),
               "memory": memory}
    yield from (row for row in earlier() if row["peer"] not in seen | LEFT_OUT | {"direct-stdio"})


def earlier():
    """The cells of earlier-peers.md, for peers that are not here today."""
    text, size, cells, memory = (ROOT / "bench/measure/earlier-peers.md").read_text(), 0, [], {}
    for line in text.splitlines():
        if found := re.match(r"### HTTP -> stdio upstream, (\d+) B", line):
            size = int(found[1])
        words = [word.strip() for word in line.strip("|").split("|")]
        if len(words) == 12 and words[2].isdigit():
            number = lambda word: None if word == "-" else float(word.split()[0].replace(",", ""))
            errors, calls = map(int, words[10].split("/"))
            cells.append({"peer": words[0], "mode": words[1], "callers": int(words[2]), "size": size, "now": False,
                          "rate": number(words[4]), "ratio": number(words[5]), "p50": number(words[6]) * 1000,
                          "p99": number(words[7]) * 1000, "cpu": number(words[9]), "errors": errors, "calls": calls})
        elif len(words) == 8 and words[2] == "stdio":
            memory[words[0]] = max(memory.get(words[0], 0), float(words[5].replace(",", "")))
    return [{**cell, "memory": memory.get(cell["peer"])} for cell in cells]


def table(told):
    yield "| result | callers | mode | who | calls/s ÷ back end | calls/s | p50 ms | p99 ms | CPU µs per call | MiB | errors |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    order = lambda row: (row["size"], -row["callers"], row["mode"], -row["ratio"])
    for row in sorted(rows(told), key=order):
        cpu, memory = (f"{row[what]:,.0f}" if row[what] is not None else "" for what in ("cpu", "memory"))
        who = row["peer"] + ("" if row["now"] else " †")
        who = f"**{who}**" if row["peer"] == "tsugi" else who
        p50, p99 = (f"{row[what] / 1000:.2f}" if row[what] is not None else "" for what in ("p50", "p99"))
        yield (f"| {row['size']:,} B | {row['callers']} | {row['mode']} | {who} | {row['ratio']:.3f} | {row['rate']:,.0f} "
               f"| {p50} | {p99} | {cpu} | {memory} | {row['errors'] or ''} |")


def behind(told):
    """(cell, measure, peer) wherever a peer does better; absolute numbers are compared only with those of today."""
    all_rows = list(rows(told))
    ours = [row for row in all_rows if row["peer"] == "tsugi"]
    for own in ours:
        cell = tuple(own[what] for what in ("mode", "callers", "size"))
        for other in all_rows:
            if other["peer"] == "tsugi" or tuple(other[what] for what in ("mode", "callers", "size")) != cell:
                continue
            if other["ratio"] >= own["ratio"]:
                yield cell, "calls/s", other["peer"]
            for what in ("p99", "cpu", "memory") if other["now"] else ("cpu", "memory"):
                if None not in (other[what], own[what]) and other[what] <= own[what]:
                    yield cell, what, other["peer"]


def behind_lines(told):
    found = {}
    for (mode, callers, size), what, peer in behind(told):
        found.setdefault((peer, what), []).append(f"{mode} × {callers} at {size:,} B")
    for (peer, what), cells in sorted(found.items()):
        yield f"- {peer} is ahead on {what}: {'; '.join(cells)}."


def targets(told):
    cells = {(row["mode"], row["callers"], row["size"]) for row in rows(told) if row["peer"] == "tsugi"}
    worse = {cell for cell, _, _ in behind(told)}
    yield ("cells in which tsugi is ahead of every other gateway on calls/s, p99, CPU and memory, part of all",
           (len(cells) - len(worse)) / len(cells) if cells else None, 1.0, False)


def errors(told):
    """What went wrong, by peer."""
    for peer, why in told["failed"].items():
        yield f"- {peer} did not start: {why[:200]}"
    first = {}
    for turn_ in told["rounds"]:
        for key, outcome in turn_.items():
            if outcome["error"]:
                first.setdefault(key.split("|")[0], outcome["error"])
    for peer, why in first.items():
        yield f"- {peer}: {why[:200]}"
