"""What a call costs as more is configured and open: servers, tools, sessions. It should cost the same."""
import contextlib, json, resource, subprocess

from .peers import Running
from .process import HTTP, LOADGEN, TSUGI, free_port
from .proxies import TsugiProxy
from .turns import Program, load, of, ratio, take

MIB = 1 << 20
SIZE = 1024


class ManyServers(TsugiProxy):
    """Ours with `count` servers, spread over the back ends; the first is called."""

    def __init__(self, backs, count):
        super().__init__(backs[0].port, "http", None)
        self.backs, self.count = backs, count

    def command(self, work, port, up, n, tools):
        servers = [{"name": f"s{i + 1}", "url": self.backs[i % len(self.backs)].url()} for i in range(self.count)]
        (work / "tsugi.yaml").write_text(json.dumps({"servers": servers}))
        return [str(TSUGI), "serve", "--listen", f"127.0.0.1:{port}", "--config", str(work / "tsugi.yaml"), "--quiet"]


class AllTogether(ManyServers):
    """The same, called through `/mcp`."""

    def urls(self, port, n):
        return [f"http://127.0.0.1:{port}/mcp"]

    def tool(self, n):
        return "s1__echo"

    def waits(self, port, mode, n, tools):
        return ["--mode", mode, "--expect-tools", tools * self.count, "--url", *self.urls(port, n)]


def measure(turns):
    # Each of thousands of servers has a connection.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with contextlib.ExitStack() as stack:
        keep = lambda program: stack.enter_context(contextlib.closing(program))
        # Several, since all servers connect at once and the system queues few connections for each back end.
        small = [keep(Program(HTTP, "--port", "PORT")) for _ in range(16)]
        large = [keep(Program(HTTP, "--port", "PORT", "--tools", "10000"))]

        def start(peer, tools=1):
            return keep(Running(peer, free_port(), "http", tools=tools, mode="modern"))
        started = {
            "one server": start(ManyServers(small, 1)),
            "10 servers": start(ManyServers(small, 10)),
            "100 servers": start(ManyServers(small, 100)),
            "1,000 servers": start(ManyServers(small, 1000)),
            "1,000 servers, at /mcp": start(AllTogether(small, 1000)),
            "10,000 tools": start(ManyServers(large, 1), tools=10000),
            "10,000 sessions": start(ManyServers(small, 1)),
        }
        # One that is not ready in time is left out, and reported as missed.
        running = {name: run for name, run in started.items() if run.wait(60).get("ok")}
        crowd = started["10,000 sessions"]
        stack.callback(hold_sessions(crowd.peer.urls(crowd.port, 1)[0], 10_000))
        rounds = take(turns, {name: turn(run) for name, run in running.items()})
        return {"rounds": rounds, "late": [name for name in started if name not in running]}


def hold_sessions(url, count):
    """Opens legacy sessions that stay unused; returns what closes them."""
    holder = subprocess.Popen([LOADGEN, "sessions", "--url", url, "--count", str(count)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    told = json.loads(holder.stdout.readline())
    if told["opened"] != count:
        raise RuntimeError(f"only {told['opened']} sessions: {told['first_error']}")

    def close():
        holder.stdin.close()
        holder.wait()
    return close


def turn(run):
    target = run.peer.target(run.port, "modern", size=SIZE)
    return lambda: load(run.proc.pid, *target, concurrency=64, seconds=0.8, warm_up=0.2)


def table(told):
    rounds = told["rounds"]
    yield "| what is there | CPU µs per call | ÷ one server | calls/s | p99 ms | MiB | errors |"
    yield "|---|---|---|---|---|---|---|"
    for name in rounds[0]:
        errors = sum(turn[name]["errors"] for turn in rounds)
        yield (f"| {name} | {of(rounds, name, 'cpu'):.1f} | {ratio(rounds, name, 'one server', 'cpu'):.2f} "
               f"| {of(rounds, name, 'rate'):,.0f} | {(of(rounds, name, 'p99') or 0) / 1000:.2f} "
               f"| {of(rounds, name, 'rss') / MIB:.1f} | {errors or ''} |")
    yield from (f"| {name} | not ready within a minute | | | | | |" for name in told["late"])


def targets(told):
    rounds = told["rounds"]
    for name in [*rounds[0], *told["late"]]:
        if name in told["late"]:
            yield f"CPU per call with {name} ÷ one server", None, 1.1, True
        elif name != "one server":
            yield f"CPU per call with {name} ÷ one server", ratio(rounds, name, "one server", "cpu"), 1.1, True
