"""Turns: every contender runs for a moment, then all of them again, so that a busy neighbour hurts all alike."""
import random, socket, statistics, subprocess, time

from .process import free_port, loadgen, stop, weigh


class Program:
    """A program on a port of its own; PORT in its arguments stands for it. Ready when it takes connections."""

    def __init__(self, *command, **options):
        self.port = free_port()
        command = [str(word).replace("PORT", str(self.port)) for word in command]
        self.began = time.monotonic()
        self.proc = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL, **options)
        while not accepts(self.port):
            if self.proc.poll() is not None or time.monotonic() - self.began > 30:
                self.close()
                raise RuntimeError(f"{command[0]} does not listen")
            time.sleep(0.001)
        self.listening_ms = (time.monotonic() - self.began) * 1000

    def url(self, path="/mcp"):
        return f"http://127.0.0.1:{self.port}{path}"

    def close(self):
        stop(self.proc)


def accepts(port):
    with socket.socket() as knock:
        return knock.connect_ex(("127.0.0.1", port)) == 0


def load(pid, *arguments, concurrency=64, seconds=1.0, warm_up=0.2):
    """One turn against the program `pid`: rate, latency, and its own CPU time per call, warm-up included in both."""
    before = weigh(pid)
    told = loadgen("load", "-c", concurrency, "--secs", seconds, "--warmup", warm_up, *arguments)
    after = weigh(pid)
    calls = told.get("total_calls") or 0
    # Without a call that began and ended within the turn there is no latency to tell.
    p50, p99 = (told[what] if told.get("calls") else None for what in ("p50_us", "p99_us"))
    return {
        "rate": told.get("cps", 0), "p50": p50, "p99": p99,
        "cpu": (after["cpu_s"] - before["cpu_s"]) * 1e6 / calls if calls else None,
        "calls": calls, "errors": told.get("errors", 0), "error": told.get("fatal") or told.get("first_error"),
        "rss": after["rss"], "bytes": told.get("bytes", 0) / calls if calls else 0, "tools": told.get("tools"),
    }


def take(turns, *groups):
    """`turns` rounds over the groups of contenders, each group in another order: one {name: outcome} a round."""
    rounds = []
    for number in range(turns):
        told = {}
        for contenders in groups:
            order = list(contenders)
            random.Random(number).shuffle(order)
            told |= {name: contenders[name]() for name in order}
        rounds.append(told)
    return rounds


def median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def of(rounds, name, what):
    """The median of one number of one contender."""
    return median(turn[name][what] for turn in rounds)


def ratio(rounds, name, other, what):
    """The median of the ratios within a turn."""
    return median(turn[name][what] / turn[other][what] for turn in rounds if turn[name][what] and turn[other][what])
