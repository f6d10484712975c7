#!/usr/bin/env python3
"""conformance/write-page.py OUT: docs/conformance.md from the summaries that conformance/run left in OUT."""
import json
import pathlib
import sys

OUT = pathlib.Path(sys.argv[1])
VERSIONS = ["2025-06-18", "2025-11-25", "2026-07-28"]
FACES = {"one": "`/servers/ref/mcp`", "all": "`/mcp`"}
WIRES = {"stdio": "stdio", "each": "stdio, `instances: per-session`", "http": "http"}
ERAS = {"both": "both", "legacy": "legacy only", "modern": "modern only"}
REASONS = {
    "input-required-result-basic-elicitation":
        "The scenario expects the server's own key of an input request. A legacy request has only its JSON-RPC id, so tsugi uses that as the key: a number as written, a string without its quotes.",
    "input-required-result-ignore-extra-params":
        "The same: it answers under a key that a legacy server has no way to send.",
    "server-stateless":
        "Two checks fail, `sep-2575-server-rejects-undeclared-capability` and the one for its status. The server refuses a client without sampling as it should, but with `-32602` and its own text, because the legacy era has no error for this that could be translated. Where one process serves all callers the server does not refuse: it sees the capabilities that tsugi declared. The other checks pass.",
    "input-required-result-capability-check":
        "Fails only where one process serves all callers. The server receives capabilities once, so it sees what tsugi can carry instead of what this caller declared; a question that the caller cannot answer is refused when it is asked. Over HTTP, and with a process for each session, the server sees the caller's own capabilities.",
}

# Measured by hand: these servers are neither on npm nor on PyPI.
SDKS = """## The SDKs' own servers

Each SDK's everything server directly and at `/servers/{name}/mcp`, without `--strict`, compared on 2026-11-16 with `conformance/compare-server.sh`.
Only the address is configured: a server that speaks both eras serves legacy clients in the legacy era.

| server | 2025-11-25 directly | through | 2026-07-28 directly | through |
| --- | --- | --- | --- | --- |
| TypeScript SDK 2.4.0 | 33/33 | 33/33 | 40/40 | 40/40 |
| Python SDK 2.3.0 | 33/33 | 33/33 | 40/40 | 40/40 |
| TypeScript SDK 1.32.2 | 31/33 | 32/33 | | |
| Python SDK 1.25.0 | 32/33 | 32/33 | | |

- TypeScript 1.x gains `server-session-lifecycle`: the session is tsugi's.
- Scenarios that fail both directly and through tsugi need a tool with JSON Schema 2020-12, which these servers lack.
"""


def summary(directory):
    path = OUT / directory / "summary.json"
    return json.loads(path.read_text()) if path.exists() else None


def total(directory):
    found = summary(directory)
    if found is None:
        return ""
    return "%d/%d" % (found["passed"], found["passed"] + found["failed"])


def sign_in_lines():
    columns = ["2025-03-26"] + VERSIONS + ["extensions"]
    found = [summary("auth-" + column) for column in columns]
    names = sorted({one["scenario"].removeprefix("auth/") for part in found if part for one in part["scenarios"]})
    return ["## Sign-in", "",
            "The client library against the suite's authorization servers, `auth/*`:", "",
            "| | %s |" % " | ".join(columns), "| --- | %s |" % " | ".join("---" for _ in columns),
            "| `auth/*` | %s |" % " | ".join(total("auth-" + column) for column in columns), "",
            "The scenarios are: %s." % ", ".join("`%s`" % name for name in names)]


def failures():
    names = {}
    for path in sorted(OUT.glob("gateway/*/summary.json")):
        found = json.loads(path.read_text())
        for scenario in found["scenarios"]:
            if scenario["verdict"] == "fail":
                names.setdefault(scenario["scenario"], []).append(path.parent.name)
    return names


def gateway_rows():
    for era in ERAS:
        for wire in WIRES:
            for face in FACES:
                cells = [total("gateway/%s-%s-%s-%s" % (wire, era, face, version)) for version in VERSIONS]
                if any(cells):
                    yield "| %s | %s | %s | %s |" % (ERAS[era], WIRES[wire], FACES[face], " | ".join(cells))


def extension_lines():
    found = summary("gateway/extensions-all")
    if found is None:
        return []
    lines = ["## Extensions", "",
             "The scenarios of extensions, straight at `/mcp` with three servers behind it: two from `conformance/extension_server.py`, both with skills and one with tasks, and the reference server.", "",
             "| scenarios | passed |", "| --- | --- |"]
    for name, prefix in [("`tasks-*`", "tasks-"), ("`sep-2640-skills-*`", "sep-2640-skills-")]:
        verdicts = [one["verdict"] for one in found["scenarios"] if one["scenario"].startswith(prefix)]
        lines.append("| %s | %d/%d |" % (name, sum(verdict == "pass" for verdict in verdicts), len(verdicts)))
    return lines + ["", "`tasks-status-notifications` is left out: the suite itself skips it.", ""]


def main():
    suite = next(json.loads(path.read_text())["suite"] for path in OUT.glob("*/*/summary.json"))
    lines = [
        "# Conformance", "",
        "<!-- Generated by `conformance/write-page.py`. `./test conformance` rewrites it. -->", "",
        "The official suite, `@modelcontextprotocol/conformance` %s, with `--strict`: warnings, and passes in which nothing was checked, count as failures." % suite, "",
        "## Through the gateway", "",
        "`tsugi serve` in front of `conformance/reference_server.py`, which passes everything directly.",
        "A server that speaks only one era is tested with the scenarios of the other.",
        "In the legacy era the reference server sends all its questions before it waits for an answer. A server that waits for each answer before it asks the next makes a modern client see them one by one, and `input-required-result-multiple-input-requests` cannot pass.", "",
        "| the server speaks | behind | asked at | %s |" % " | ".join(VERSIONS),
        "| --- | --- | --- | %s |" % " | ".join("---" for _ in VERSIONS),
        *gateway_rows(), "",
    ]
    names = failures()
    if names:
        lines += ["Scenarios that fail in front of a server that speaks only the legacy era:", ""]
        for name in [name for name in REASONS if name in names] + sorted(set(names) - set(REASONS)):
            lines.append("- `%s`: %s" % (name, REASONS.get(name, "**unexplained**, in %s" % ", ".join(names[name]))))
        lines.append("")
    lines += extension_lines()
    lines.append(SDKS)
    if not any(summary("client-" + version) for version in VERSIONS):
        print("\n".join(lines).rstrip())
        return
    lines += ["## The client library", "", "| | %s |" % " | ".join(VERSIONS), "| --- | %s |" % " | ".join("---" for _ in VERSIONS),
              "| outside `auth/*` | %s |" % " | ".join(total("client-" + version) for version in VERSIONS),
              "", *sign_in_lines()]
    print("\n".join(lines))


main()
