#!/usr/bin/env python3
"""Measures `mcp-server-pm` beside two project servers from npm, in one run on one machine, and says what is met.

  scripts/bench pm DIR                 everything; writes docs/performance-pm.md, and the ratios into docs/performance.md
  scripts/bench pm DIR --short         a few of everything, only to see that it works; writes nothing

DIR keeps the peers (installed on first use, pinned) and the projects. The program is target/release/mcp-server-pm,
or target/fast or target/debug where that is missing; the output says which. Every server is driven over stdio by the
same code. "Claim" is each server's documented way to take work: `claim_task` here; for backlog.md the next task of
`task_list` in To Do, then `task_edit` to In Progress with an assignee; for task-master-ai `next_task`, then
`set_task_status` in-progress. A duplicate is a second success answer for one task. What was got is finished before
the next round. Compare CPU time and counts; wall clock is that of a machine which may do other things.
PostgreSQL is measured where there is one (scripts/postgres, with its syncs on).
"""
import argparse, json, os, pathlib, re, shutil, statistics, subprocess, sys, threading, time

HERE = pathlib.Path(__file__).resolve().parent.parent.parent
PEERS = {"backlog.md": "1.52.0", "task-master-ai": "0.43.1"}
TICK = os.sysconf("SC_CLK_TCK")
PAGE = HERE / "docs/performance-pm.md"
KEPT = HERE / "target/bench/parts/pm.json"  # where scripts/bench finds what it says of us in docs/performance.md


class Server:
    """One server process that speaks MCP 2025-06-18 over its standard streams."""

    def __init__(self, command, folder, log):
        begin = time.perf_counter()
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            env={**os.environ, "TASK_MASTER_TOOLS": "all"})
        self.number = 0
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.ask("initialize", hello)
        self.cold = time.perf_counter() - begin
        self.send({"method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write((json.dumps({"jsonrpc": "2.0", **message}) + "\n").encode())
        self.process.stdin.flush()

    def ask(self, method, params):
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError("the server ended; stderr.log has its last words")
            try:
                message = json.loads(line)
            except ValueError:
                continue  # A peer that chats on its data stream.
            if message.get("id") == self.number and "method" not in message:
                return message
            if "method" in message and "id" in message:
                self.send({"id": message["id"], "result": {"roots": []}})

    def call(self, tool, **arguments):
        """The text of the answer and whether it is a success."""
        message = self.ask("tools/call", {"name": tool, "arguments": arguments})
        result = message.get("result", {})
        text = "".join(part.get("text", "") for part in result.get("content", []))
        is_well = "error" not in message and not result.get("isError") and not text.startswith("Error")
        return (result.get("structuredContent") or text), is_well, len(json.dumps(message))

    def cpu(self):
        """CPU seconds of the process and its children so far."""
        total, todo = 0, [self.process.pid]
        while todo:
            pid = todo.pop()
            try:
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            except OSError:
                continue
            total += sum(int(field) for field in fields[11:15])
            todo += [int(child) for child in children]
        return total / TICK

    def rss(self):
        return int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096

    def close(self):
        begin = time.perf_counter()
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        return time.perf_counter() - begin


class Tsugi:
    name = "tsugi"

    def __init__(self, place, program, db="pm.db", tools="standard"):
        self.place, self.program, self.db, self.tools = place, program, db, tools
        self.tsugi = str(pathlib.Path(program).with_name("tsugi"))

    def make(self):
        fresh(self.place)
        agents = [word for number in range(64) for word in ("--agent", f"agt_w{number}:manager")]
        self.run("init", "--project", "WEB", "Bench", *agents)

    def run(self, *words):
        subprocess.run([self.tsugi, "pm", *words, "--db", self.db], cwd=self.place, check=True,
                       capture_output=True)

    def command(self, number):
        return [self.program, "--db", self.db, "--agent-id", f"agt_w{number}", "--tools", self.tools]

    def grow(self, server, have, want):
        """Makes tasks by the hundred, every third waiting for the one before it."""
        for first in range(have, want, 100):
            tasks = [{"ref": str(number), "title": f"Task {number}",
                      "depends_on": [str(number - 1)] if number % 3 == 2 and number > first else []}
                     for number in range(first, min(first + 100, want))]
            made = server.call("create_tasks", project_id=server.project, tasks=tasks)
            if not made[1]:
                raise RuntimeError(f"create_tasks: {made[0]}")

    def create(self, server, title):
        if not hasattr(server, "project"):
            server.project = server.call("list_projects")[0]["projects"][0]["id"]
        return server.call("create_task", project_id=server.project, title=title)[1]

    def ready(self, server):
        return server.call("get_ready_tasks", limit=10)[2]

    def claim(self, server, number):
        answer, is_well, _ = server.call("claim_task")
        return answer["task"]["id"] if is_well and answer["claimed"] else None

    def finish(self, server, task):
        server.call("update_task_status", task_id=task, status="done", result={"summary": "done"})

    def count(self, server):
        total, cursor = 0, {}
        while True:
            page = server.call("list_tasks", limit=200, **cursor)[0]
            total += len(page["tasks"])
            if "next_cursor" not in page:
                return total
            cursor = {"cursor": page["next_cursor"]}


class Backlog:
    name = "backlog.md"

    def __init__(self, place, peers):
        self.place, self.program = place, str(peers / "node_modules/.bin/backlog")

    def make(self):
        fresh(self.place)
        for words in (["git", "init", "-q"], [self.program, "init", "bench", "--defaults"]):
            subprocess.run(words, cwd=self.place, check=True, capture_output=True)

    def command(self, number):
        return [self.program, "mcp", "start"]

    def create(self, server, title):
        return server.call("task_create", title=title)[1]

    def ready(self, server):
        return server.call("task_list", status="To Do", ready=True)[2]

    def claim(self, server, number):
        listed = server.call("task_list", status="To Do")[0]
        found = re.search(r"(TASK-\d+)", listed if isinstance(listed, str) else json.dumps(listed))
        if not found:
            return None
        task = found.group(1)
        return task if server.call("task_edit", id=task, status="In Progress", assignee=[f"@w{number}"])[1] else None

    def finish(self, server, task):
        server.call("task_edit", id=task, status="Done")

    def count(self, server):
        return len(list((self.place / "backlog/tasks").glob("*.md")))


class TaskMaster:
    name = "task-master-ai"

    def __init__(self, place, peers):
        self.place, self.program = place, str(peers / "node_modules/.bin/task-master-ai")

    def make(self):
        fresh(self.place)
        moment = "2026-01-01T00:00:00.000Z"
        (self.place / ".taskmaster/tasks").mkdir(parents=True)
        state = {"currentTag": "master", "lastSwitched": moment}
        (self.place / ".taskmaster/state.json").write_text(json.dumps(state))
        meta = {"created": moment, "updated": moment, "description": "bench"}
        tasks = {"master": {"tasks": [], "metadata": meta}}
        (self.place / ".taskmaster/tasks/tasks.json").write_text(json.dumps(tasks))

    def command(self, number):
        return [self.program]

    def create(self, server, title):
        return server.call("add_task", projectRoot=str(self.place), title=title, description=title)[1]

    def ready(self, server):
        return server.call("next_task", projectRoot=str(self.place))[2]

    def claim(self, server, number):
        text, is_well, _ = server.call("next_task", projectRoot=str(self.place))
        try:
            task = json.loads(text)["data"]["nextTask"]
        except (ValueError, KeyError, TypeError):
            return None
        if not (is_well and task):
            return None
        task = str(task["id"])
        moved = server.call("set_task_status", projectRoot=str(self.place), id=task, status="in-progress")
        return task if moved[1] else None

    def finish(self, server, task):
        server.call("set_task_status", projectRoot=str(self.place), id=task, status="done")

    def count(self, server):
        stored = json.loads((self.place / ".taskmaster/tasks/tasks.json").read_text())
        return len(stored["master"]["tasks"])


def fresh(place):
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)


def part(times, share):
    """The time that this share of them did not exceed."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000


def timed(server, count, work):
    """Does something so often; answers the seconds each took, and CPU milliseconds per turn."""
    times, busy = [], server.cpu()
    for number in range(count):
        started = time.perf_counter()
        work(number)
        times.append(time.perf_counter() - started)
    return times, (server.cpu() - busy) * 1000 / count


def alone(peer, log, tasks, starts):
    """One server, one caller."""
    peer.make()
    cold = []
    for _ in range(starts):
        server = Server(peer.command(0), peer.place, log)
        cold.append(server.cold)
        server.close()
    server = Server(peer.command(0), peer.place, log)
    listed = server.ask("tools/list", {})["result"]
    found = {"tools": len(listed["tools"]), "list bytes": len(json.dumps(listed, separators=(",", ":"))),
             "cold start p50 ms": part(cold, 0.5), "cold start p99 ms": part(cold, 0.99)}

    def create(number):
        if not peer.create(server, f"Task number {number} of the benchmark"):
            raise RuntimeError(f"{peer.name} did not create task {number}")

    times, cpu = timed(server, tasks, create)
    tenth = max(tasks // 10, 1)
    found |= {"create CPU ms": cpu, "create p50 ms": part(times, 0.5), "create p99 ms": part(times, 0.99),
              "create p50 first tenth ms": part(times[:tenth], 0.5), "create p50 last tenth ms": part(times[-tenth:], 0.5)}
    sizes = []
    times, cpu = timed(server, 50, lambda _: sizes.append(peer.ready(server)))
    found |= {"ready bytes": sizes[-1], "ready p50 ms": part(times, 0.5), "ready p99 ms": part(times, 0.99),
              "ready CPU ms": cpu}
    # Taken and finished in turn: some servers let nobody hold more than a few.
    claims, times = [], []
    busy = server.cpu()
    for number in range(min(tasks, 50)):
        started = time.perf_counter()
        claims.append(peer.claim(server, 0))
        times.append(time.perf_counter() - started)
        peer.finish(server, claims[-1])
    found |= {"claim p50 ms": part(times, 0.5), "claim p99 ms": part(times, 0.99),
              "claim and finish CPU ms": (server.cpu() - busy) * 1000 / len(claims)}
    found["RSS MiB"] = server.rss() / (1 << 20)
    found["exit ms"] = server.close() * 1000
    return found


def together(servers, work):
    """Everybody does it at once; answers what each got."""
    barrier, got = threading.Barrier(len(servers)), [None] * len(servers)

    def one(number):
        barrier.wait()
        try:
            got[number] = work(servers[number], number)
        except (RuntimeError, OSError):
            got[number] = None

    threads = [threading.Thread(target=one, args=(number,)) for number in range(len(servers))]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return got


def crowd(peer, log, agents, rounds):
    """Many servers on one project: who gets what, and what of it is kept."""
    peer.make()
    servers = [Server(peer.command(number), peer.place, log) for number in range(agents)]
    for number in range(agents * rounds):
        peer.create(servers[0], f"Wanted {number}")
    wall, grants, times, shares = 0, [], [], [0] * agents

    def claim(server, number):
        started = time.perf_counter()
        task = peer.claim(server, number)
        times.append(time.perf_counter() - started)
        return task

    for _ in range(rounds):
        begin = time.perf_counter()
        got = together(servers, claim)
        wall += time.perf_counter() - begin
        shares = [share + (task is not None) for share, task in zip(shares, got)]
        grants += [task for task in got if task]
        # Each finishes what it got, one after the other, so that the next round is about other tasks.
        [peer.finish(server, task) for server, task in zip(servers, got) if task]
    before = peer.count(servers[0])
    made = []
    for turn in range(5):
        made += together(servers, lambda server, number: peer.create(server, f"Made by {number} in turn {turn}"))
    acknowledged = sum(1 for well in made if well)
    kept = peer.count(servers[0]) - before
    [server.close() for server in servers]
    distinct = len(set(grants))
    return {"claims granted": len(grants), "distinct": distinct, "duplicates": len(grants) - distinct,
            "starved": sum(1 for share in shares if share == 0), "race p50 ms": part(times, 0.5),
            "race p99 ms": part(times, 0.99), "race ms per claim": wall * 1000 / max(len(grants), 1),
            "creates acknowledged": acknowledged,
            "creates lost": acknowledged - kept}


def scale(peer, log, sizes, count):
    """Ours as its database grows: what a call costs must not depend on how many tasks there are."""
    peer.make()
    peer.run("project", "set", "WEB", "--rule", "max_claims_per_session=1000")
    server, have, rows = Server(peer.command(0), peer.place, log), 0, {}
    peer.create(server, "Warm")
    for size in sizes:
        peer.grow(server, have, size)
        have = size
        made, made_cpu = timed(server, count, lambda number: peer.create(server, f"Of {size}, number {number}"))
        seen, seen_cpu = timed(server, count, lambda _: peer.ready(server))
        tasks = []
        took, took_cpu = timed(server, count, lambda number: tasks.append(peer.claim(server, 0)))
        [peer.finish(server, task) for task in tasks]
        rows[size] = {"create": [part(made, 0.5), part(made, 0.99), made_cpu],
                      "ready": [part(seen, 0.5), part(seen, 0.99), seen_cpu],
                      "claim": [part(took, 0.5), part(took, 0.99), took_cpu], "RSS MiB": server.rss() / (1 << 20)}
    server.close()
    return rows


def on_postgres(folder, program, log, agents, rounds):
    """Ours with many clients on PostgreSQL, or nothing where there is none."""
    script, place = str(HERE / "scripts/postgres"), str(folder / f"postgres.{os.getpid()}")
    started = subprocess.run([script, "start", place, "--durable"], capture_output=True, text=True)
    if started.returncode != 0:
        print(started.stderr.strip(), file=sys.stderr)
        return None
    try:
        return crowd(Tsugi(folder / "ours-postgres", program, db=started.stdout.strip()), log, agents, rounds)
    finally:
        subprocess.run([script, "stop", place], check=False)


def list_bytes(folder, program, log, tools):
    peer = Tsugi(folder / "ours-list", program, tools=tools)
    peer.make()
    server = Server(peer.command(0), peer.place, log)
    listed = server.ask("tools/list", {})["result"]
    server.close()
    return len(json.dumps(listed, separators=(",", ":"), ensure_ascii=False).encode())


def install(place):
    if all((place / "node_modules" / name).is_dir() for name in PEERS):
        return
    place.mkdir(parents=True, exist_ok=True)
    words = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(place)]
    subprocess.run(words + [f"{name}@{version}" for name, version in PEERS.items()], check=True)


def program():
    for kind in ("dist", "release", "debug"):
        path = HERE / "target" / kind / "mcp-server-pm"
        if path.exists():
            return str(path)
    sys.exit("build it first: cargo build --release -p tsugi --bins")


def table(results):
    names = list(results)
    lines = ["| | " + " | ".join(names) + " | " + " | ".join(f"{name} ÷ tsugi" for name in names[1:]) + " |",
             "|---" * (2 * len(names)) + "|"]
    for row in results[names[0]]:
        values = [results[name].get(row) for name in names]
        cells = ["–" if value is None else f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
                 for value in values]
        is_ratio = row.endswith(("ms", "bytes", "MiB")) and values[0]
        ratios = [f"{value / values[0]:,.1f}" if is_ratio and value is not None else "" for value in values[1:]]
        lines.append(f"| {row} | " + " | ".join(cells + ratios) + " |")
    return "\n".join(lines)


def targets(found):
    """(what, measured, at most) for every target that can be measured here."""
    ours, rows, postgres = found["peers"]["tsugi"], found["scale"], found["postgres"]
    middle = rows[list(rows)[len(rows) // 2]]
    small, large = rows[list(rows)[0]], rows[list(rows)[-1]]
    yield "cold start to `initialize`, p50 ms", ours["cold start p50 ms"], 30
    yield "cold start to `initialize`, p99 ms", ours["cold start p99 ms"], 100
    for what in ("create", "ready", "claim"):
        name = {"create": "`create_task`", "ready": "`get_ready_tasks(10)`", "claim": "`claim_task`, one agent"}[what]
        sync = 0 if what == "ready" else found["sync ms"]
        yield f"{name}, p50 ms" + (f", with one sync of {sync:.2f}" if sync else ""), middle[what][0], 1 + sync
        yield f"{name}, p99 ms" + (f", with one sync of {sync:.2f}" if sync else ""), middle[what][1], 10 + sync
    yield "`create_task`, CPU ms", middle["create"][2], 0.5
    yield f"`claim_task`, {found['agents']} processes at once, p50 ms", ours["race p50 ms"], 20
    yield f"`claim_task`, {found['agents']} processes at once, p99 ms", ours["race p99 ms"], 500
    yield "of these duplicates, lost and starved", ours["duplicates"] + ours["creates lost"] + ours["starved"], 0
    if postgres:
        yield f"`claim_task`, PostgreSQL, {found['clients']} clients at once, p50 ms", postgres["race p50 ms"], 20
        yield f"`claim_task`, PostgreSQL, {found['clients']} clients at once, p99 ms", postgres["race p99 ms"], 150
        yield "of these duplicates, lost and starved ", (postgres["duplicates"] + postgres["creates lost"]
                                                         + postgres["starved"]), 0
    yield "tool list, core, bytes", found["core bytes"], 8192
    yield "tool list, standard, bytes", found["standard bytes"], 16384
    yield "answer of `get_ready_tasks(10)`, bytes", ours["ready bytes"], 16384
    yield "memory of a server, MB", middle["RSS MiB"] * 1.048576, 20
    for what in ("create", "ready", "claim"):
        name = f"{what}: CPU with {list(rows)[-1]:,} tasks ÷ with {list(rows)[0]:,}"
        yield name, large[what][2] / max(small[what][2], 0.001), 1.25


def verdicts(found):
    lines = ["| what | measured | target | |", "|---|---|---|---|"]
    for what, value, limit in targets(found):
        shown = f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
        most = f"{limit:,}" if isinstance(limit, int) else f"{limit:,.2f}"
        lines.append(f"| {what} | {shown} | ≤ {most} | {'met' if value <= limit else '**missed**'} |")
    return "\n".join(lines)


def growth(found):
    lines = ["| tasks | create p50 / p99 / CPU ms | ready p50 / p99 / CPU ms | claim p50 / p99 / CPU ms | RSS MiB |",
             "|---|---|---|---|---|"]
    for size, row in found["scale"].items():
        cells = [" / ".join(f"{value:.2f}" for value in row[what]) for what in ("create", "ready", "claim")]
        lines.append(f"| {size:,} | " + " | ".join(cells) + f" | {row['RSS MiB']:.1f} |")
    return "\n".join(lines)


def written(found):
    """The whole page."""
    return f"""# Project management beside two peers

Written by `scripts/bench pm`; do not edit.
One run drives `mcp-server-pm` and two project servers from npm over stdio with the same code.
Compare ratios, CPU time and counts, not wall-clock time.
CPU time includes the kernel's, and with it the cost of making every acknowledged write durable (`synchronous=FULL`).

```sh no-run: it takes minutes and installs other programs
cargo build --release -p tsugi --bins
scripts/bench pm
scripts/bench pm --short    # only to see that it works
```

{found['head']}

## Against our own targets

{verdicts(found)}

The cost of one call at {list(found['scale'])[len(found['scale']) // 2]:,} tasks is compared with the targets; a test also counts the steps of SQLite's virtual machine from 1,000 to 100,000 tasks.
Tests with a simulated clock prove that a killed agent is noticed after 60 seconds and its work is released (`cargo nextest run -p tsugi pm::ending`).
`TSUGI_LONG=1 cargo nextest run -p tsugi-pm kill_9` kills a server 10,000 times; `TSUGI_SOAK=3600 cargo nextest run -p tsugi-pm soak` starts and kills sixteen agents for an hour.

## As the database grows

{growth(found)}

## Beside the peers

{table(found['peers'])}

A *duplicate* is a claim granted for a task that another agent already holds. A *lost* create was acknowledged and is missing afterwards.
`mcp-server-pm` on PostgreSQL with {found['clients']} clients: {postgres_line(found['postgres'])}
"""


def postgres_line(postgres):
    if not postgres:
        return "not measured, there was none."
    return (f"{postgres['claims granted']} claims on {postgres['distinct']} tasks, p50 {postgres['race p50 ms']:.1f} ms, "
            f"p99 {postgres['race p99 ms']:.1f} ms, {postgres['creates acknowledged']} creates acknowledged, "
            f"{postgres['creates lost']} lost.")


def sync_ms(folder):
    """What it costs here to make one small write durable."""
    path, times = folder / "sync", []
    with open(path, "wb") as file:
        for _ in range(30):
            file.write(b"x" * 4096)
            file.flush()
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - started)
    path.unlink()
    return part(times, 0.5)


def keep(found):
    """Leaves what docs/performance.md says of us, and has it written anew."""
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    ratios = [line for line in table(found["peers"]).splitlines()
              if line.startswith(("| |", "|---", "| create CPU", "| create p50 ms", "| ready CPU", "| claim p50", "| cold start p50",
                                  "| RSS", "| duplicates", "| creates lost"))]
    KEPT.write_text(json.dumps({"lines": [found["head"], "", *ratios]}))
    subprocess.run([str(HERE / "scripts/bench"), "page"], check=True)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--short", action="store_true", help="a few of everything; writes nothing")
    parser.add_argument("--tasks", type=int, default=300, help="tasks that one caller creates (300)")
    parser.add_argument("--agents", type=int, default=16, help="servers at once (16)")
    parser.add_argument("--rounds", type=int, default=4, help="rounds of claims (4)")
    parser.add_argument("--program", help="another mcp-server-pm, with tsugi beside it")
    options = parser.parse_args(arguments)
    sizes, count, starts, clients = [1_000, 10_000, 100_000], 500, 20, 64
    if options.short:
        options.tasks, options.agents, options.rounds = 10, 3, 2
        sizes, count, starts, clients = [100, 200, 400], 20, 2, 6
    install(options.dir)
    ours = options.program or program()
    found = measured(options, ours, sizes, count, starts, clients)
    text = written(found)
    print(text)
    if not options.short:
        PAGE.write_text(text)
        keep(found)


def measured(options, ours, sizes, count, starts, clients):
    peers = [Tsugi(options.dir / "ours", ours), Backlog(options.dir / "backlog", options.dir),
             TaskMaster(options.dir / "task-master", options.dir)]
    results = {}
    with open(options.dir / "stderr.log", "w") as log:
        for peer in peers:
            print(f"{peer.name} …", file=sys.stderr, flush=True)
            results[peer.name] = {**alone(peer, log, options.tasks, starts if peer is peers[0] else min(starts, 3)),
                                  **crowd(peer, log, options.agents, options.rounds)}
        print("ours as it grows …", file=sys.stderr, flush=True)
        grown = scale(Tsugi(options.dir / "ours-grown", ours), log, sizes, count)
        print("ours on PostgreSQL …", file=sys.stderr, flush=True)
        postgres = on_postgres(options.dir, ours, log, clients, options.rounds)
        lists = {f"{tools} bytes": list_bytes(options.dir, ours, log, tools) for tools in ("core", "standard")}
    kind = pathlib.Path(ours).parent.name
    moment = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    head = (f"Measured {moment}, {os.cpu_count()} cores, load average {os.getloadavg()[1]:.1f}: {options.tasks} tasks alone, "
            f"then {options.agents} servers × {options.rounds} rounds of claims and 5 of creates; our program is the {kind} "
            f"build; " + ", ".join(f"{name} {version}" for name, version in PEERS.items()) + ".")
    return {"head": head, "peers": results, "scale": grown, "postgres": postgres, "clients": clients,
            "agents": options.agents, "sync ms": sync_ms(options.dir), **lists}


if __name__ == "__main__":
    main()
