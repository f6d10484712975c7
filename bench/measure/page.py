"""Writes docs/performance.md from what was measured; each part keeps its numbers until it is measured again."""
import json, os, time

from . import client, contest, gateway, growth, lists, proxies, start
from .process import ROOT, Neighbours

KEPT = ROOT / "target/bench/parts"
PAGE = ROOT / "docs/performance.md"
PARTS = {"client": client, "gateway": gateway, "lists": lists, "start": start,
         "proxies": proxies, "growth": growth, "peers": contest}
# Above this share of the machine's CPU in other hands, numbers are provisional.
QUIET = 0.05


def take(name, turns, build="release"):
    """Measures one part and keeps it."""
    before, near = os.getloadavg(), Neighbours()
    began = time.time()
    told = PARTS[name].measure(turns)
    KEPT.mkdir(parents=True, exist_ok=True)
    kept = {"at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(began)), "took_s": round(time.time() - began),
            "turns": turns, "build": build, "load": before[0], "others": near.share(), "told": told}
    (KEPT / f"{name}.json").write_text(json.dumps(kept))


def kept(name):
    path = KEPT / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def write():
    parts = {name: kept(name) for name in PARTS}
    body = [*head(), *verdicts(parts)]
    for name, section in SECTIONS.items():
        body += section(parts[name]["told"], stamp(parts[name])) if parts[name] else []
    body += ["## Project management", "", *(kept("pm") or {"lines": []})["lines"], "",
             "[All results](performance-pm.md) are written by `scripts/bench pm`.", ""]
    PAGE.write_text("\n".join(body))


def stamp(part):
    words = (f"Measured {part['at']} in {part['turns']} turns with a {part.get('build', 'dist')} build, {os.cpu_count()} cores, load average {part['load']:.1f} before it, "
             f"{part['others']:.0%} of the CPU used by other programs.")
    return words + (" **The machine was busy: provisional.**" if part["others"] > QUIET else "")


def head():
    return [
        "# Performance", "",
        "Written by `scripts/bench`; do not edit.",
        "Everything runs on one machine, in turns, including the load generator and the back ends. Compare ratios and CPU per "
        "call, not absolute numbers.",
        "Numbers are medians over the turns, and ratios are medians of the ratios within a turn. CPU counts the program's own "
        "processes, without back ends and load generator.", "",
        "```sh no-run: it takes a quarter of an hour and needs the machine to itself",
        "bench/peers      # once: installs the other gateways into target/", "scripts/bench    # or some parts only: scripts/bench gateway start",
        "```", ""]


def verdicts(parts):
    yield from ("## Targets", "", "| what | measured | target | |", "|---|---|---|---|")
    for name, part in parts.items():
        if part is None:
            yield f"| {name} | not measured | | |"
            continue
        for what, value, limit, less in PARTS[name].targets(part["told"]):
            yield f"| {what} | {number(value)} | {'≤' if less else '≥'} {limit:g} | {verdict(value, limit, less)} |"
    yield ""


def number(value):
    return "not measured" if value is None else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def verdict(value, limit, less):
    if value is None:
        return "unknown"
    return "met" if (value <= limit if less else value >= limit) else "**missed**"


def client_section(told, stamped):
    return [
        "## The client library", "", stamped, "",
        "- `bare` sends the same bytes through the same pipe or kept-alive connection, without MCP.",
        "- `tsugi` is the connection with its deadlines.",
        "- `whole stack` adds validation of arguments and results, a cache lookup that never hits, the breaker, retries and limits.",
        "- `keeping all` also stores every result in a cache of a thousand entries, and evicts the oldest for it.",
        "- `rmcp` is the official SDK's client.", "",
        "Times are in microseconds. `÷ bare` is a median of ratios within a turn; the other ratios are those of the medians beside them.",
        "The bare pipe talks to the same back end as the others, so the back end's time is in all of them. With a back end that "
        "answers instantly the ratio would be larger.", "",
        *client.table(told), ""]


def gateway_section(told, stamped):
    return [
        "## Calls through the gateway", "", stamped, "",
        "HTTP in, one stdio server out, 64 callers with a connection each, `tsugi serve` with its defaults.",
        "`hello` is a bare hyper server that reads the same request and answers with 1 KiB.",
        "`relay` copies the body to the child and its line back, and replaces one number on the way.",
        "`back end itself` is the same echo server over HTTP, called directly.", "",
        *gateway.table(told), ""]


def lists_section(told, stamped):
    return [
        "## Lists", "", stamped, "",
        f"`tools/list` over {lists.SERVERS} servers with {lists.TOOLS} tools each, 16 callers.",
        "`same bytes` is a bare hyper server that answers every request with exactly the bytes of our response.", "",
        *lists.table(told), ""]


def start_section(told, stamped):
    return ["## Start and memory", "", stamped, "", *start.lines(told), ""]


def proxies_section(told, stamped):
    return [
        "## Beside plain proxies", "", stamped, "",
        "HTTP in at `/servers/NAME/mcp`, HTTP or HTTPS out to one echo server; nginx and HAProxy of Debian in the same place.",
        "They pass bytes on. We also read every message, and apply limits, deadlines and policy.",
        "`÷ direct` compares with the echo server called without anything between.", "",
        *proxies.table(told), "",
        f"MiB held at most right after a load, and {proxies.SETTLED} s after a crowd of {proxies.CROWD:,} connections has gone:", "",
        "| who | upstream | after a load | after the crowd |", "|---|---|---|---|", *proxies.memory_lines(told), ""]


def growth_section(told, stamped):
    return [
        "## Growth", "", stamped, "",
        "64 callers of one tool with a result of 1 KiB over an HTTP upstream, while more and more is configured or open.",
        "What stands at `/mcp` is called by its public name there, the rest at `/servers/NAME/mcp`.", "",
        *growth.table(told), ""]


def peers_section(told, stamped):
    out = [
        "## Other gateways", "", stamped, "",
        "HTTP in, one stdio echo server out. All gateways were running while each was loaded in turn.",
        "`calls/s ÷ back end` compares with the same echo server over HTTP, called in the same turn. MiB is the most that the "
        "gateway's own processes held after any load.",
        "† not available on that day: the row is from [bench/measure/earlier-peers.md](../bench/measure/earlier-peers.md), measured with the same rig on 2026-11-15.", ""]
    ahead = list(contest.behind_lines(told))
    out += ["Where another gateway does better:", "", *ahead, ""] if ahead else ["No other gateway does better in any cell.", ""]
    trouble = list(contest.errors(told))
    out += ["What went wrong:", "", *trouble, ""] if trouble else []
    return out + [*contest.table(told), ""]


SECTIONS = {"client": client_section, "gateway": gateway_section, "lists": lists_section, "start": start_section,
            "proxies": proxies_section, "growth": growth_section, "peers": peers_section}
