"""What a call through the client library costs, beside the bare wire and beside the official SDK's client."""
import json, subprocess

from .process import BIN, CLIENT


def measure(turns):
    """Rows by cell and kind, as `rig-client` gives them."""
    told = subprocess.run([CLIENT, "--bin", BIN, "--rounds", str(turns), "--millis", "500", "--json"],
                          check=True, capture_output=True, text=True).stdout
    cells = {}
    for line in map(json.loads, told.splitlines()):
        cells.setdefault(line["cell"], {})[line["kind"]] = line
    return cells


def cpu(cell, kind):
    return cell[kind]["cpuUsPerCall"]


def table(cells):
    yield "| cell | bare p50 | tsugi p50 | ÷ bare | tsugi CPU | whole stack CPU | ÷ tsugi | keeping all CPU | ÷ tsugi | rmcp CPU | rmcp ÷ tsugi |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for name, cell in cells.items():
        bare, tsugi = cell["bare"], cell["tsugi"]
        yield (f"| {name} | {bare['p50us']:.1f} | {tsugi['p50us']:.1f} | {tsugi['p50OverBare']:.2f} "
               f"| {cpu(cell, 'tsugi'):.1f} | {cpu(cell, 'stack'):.1f} | {cpu(cell, 'stack') / cpu(cell, 'tsugi'):.2f} "
               f"| {cpu(cell, 'keeping'):.1f} | {cpu(cell, 'keeping') / cpu(cell, 'tsugi'):.2f} "
               f"| {cpu(cell, 'rmcp'):.1f} | {cpu(cell, 'rmcp') / cpu(cell, 'tsugi'):.1f} |")


def targets(cells):
    yield "client: stdio 1 KiB one at a time, p50 ÷ the bare pipe", cells["stdio 1 KiB x1"]["tsugi"]["p50OverBare"], 1.3, True
    for name, limit in (("stdio 1 KiB x64", 5), ("stdio 200 KiB x64", 3), ("http 1 KiB x1", 3), ("http 1 KiB x64", 3)):
        yield f"client: CPU of rmcp ÷ ours, {name}", cpu(cells[name], "rmcp") / cpu(cells[name], "tsugi"), limit, False
    for name in ("stdio 1 KiB x64", "http 1 KiB x64"):
        yield f"client: CPU of the whole stack with validation and cache lookups ÷ the connection, {name}", cpu(cells[name], "stack") / cpu(cells[name], "tsugi"), 1.25, True
