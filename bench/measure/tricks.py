"""What each trick of tsugi-rt saves: one program built with the feature `switch`, run with and without each of them.

CPU per call counts the kernel's work too, which is what a timer or a wake-up costs, but needs a quiet machine. Instructions
per call (callgrind) leave the kernel out and do not depend on the neighbours.
"""
import contextlib, re, subprocess, time

from .peers import Running, Tsugi
from .process import free_port, loadgen, stop
from .turns import load, ratio, take

TRICKS = ("coarse_timer", "header_timeout", "wake_filter", "small_buffer", "read_buffers", "body_buffers")
SIZES = (1024, 102400)


class Switched(Tsugi):
    """tsugi with ordinary code in place of some tricks."""

    def __init__(self, plain, counts=False):
        self.plain, self.counts = plain, counts

    def env(self):
        return {"TSUGI_RT_PLAIN": self.plain}

    def command(self, work, port, up, n, tools):
        command = super().command(work, port, up, n, tools)
        if not self.counts:
            return command
        return ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={work}/callgrind", *command]


def variants():
    return {"none": "", **{trick: trick for trick in TRICKS}, "all": "all"}


def measure(turns):
    with contextlib.ExitStack() as stack:
        keep = lambda program: stack.enter_context(contextlib.closing(program))
        running = {name: keep(Running(Switched(plain), free_port(), "stdio", mode="modern")).ready()
                   for name, plain in variants().items()}
        return {str(size): take(turns, {name: lambda one=one, size=size: load(
            one.proc.pid, *one.peer.target(one.port, "modern", size=size)) for name, one in running.items()})
            for size in SIZES}


def count(seconds=6):
    """Instructions per call, by size and variant."""
    return {str(size): {name: instructions(plain, size, seconds) for name, plain in variants().items()} for size in SIZES}


def instructions(plain, size, seconds):
    one = Running(Switched(plain, counts=True), free_port(), "stdio", mode="modern").ready()
    try:
        target = one.peer.target(one.port, "modern", size=size)
        # Warm: pools are filled and every path has been taken once.
        loadgen("load", "-c", 16, "--secs", 2, "--warmup", 0, *target)
        control("on", one.proc.pid)
        told = loadgen("load", "-c", 16, "--secs", seconds, "--warmup", 0, *target)
        control("off", one.proc.pid)
        stop(one.proc)
        collected = re.search(r"Collected : (\d+)", one.tail())
        calls = told.get("total_calls")
        if not collected or not calls:
            raise RuntimeError(f"callgrind counted nothing: {told} {one.tail()}")
        return int(collected[1]) / calls
    finally:
        one.close()


def control(what, pid):
    subprocess.run(["callgrind_control", "-i", what, str(pid)], check=True, stdout=subprocess.DEVNULL)
    time.sleep(0.5)


def table(parts, counted=None):
    yield "| result | replaced by ordinary code | CPU per call ÷ all tricks | instructions per call ÷ all tricks |"
    yield "|---|---|---|---|"
    for size in map(str, SIZES):
        for name in list(variants())[1:]:
            cpu = f"{ratio(parts[size], name, 'none', 'cpu'):.3f}" if parts else "–"
            own = f"{counted[size][name] / counted[size]['none']:.3f}" if counted else "–"
            yield f"| {int(size):,} B | `{name}` | {cpu} | {own} |"
