"""Processes: what they cost, what they started, and how they are ended. Everything that is measured starts here."""
import json, os, pathlib, signal, socket, subprocess, threading, time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("RIG_BIN", ROOT / "target/bench/release"))
TSUGI = pathlib.Path(os.environ.get("RIG_TSUGI", ROOT / "target/release/tsugi"))
STDIO, HTTP, LOADGEN, FLOOR, CLIENT = (str(BIN / n) for n in ("rig-stdio", "rig-http", "loadgen", "floor", "rig-client"))
BACK = 9400  # the HTTP back ends: 9400, 9401 and so on
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def stat(pid):
    """(ppid, comm, cpu ticks, rss bytes, ticks of ended children) of a process, or None."""
    try:
        s = pathlib.Path(f"/proc/{pid}/stat").read_text()
        rss = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return None
    a, b = s.index("("), s.rindex(")")
    f = s[b + 2:].split()
    return int(f[1]), s[a + 1:b], int(f[11]) + int(f[12]), rss, int(f[13]) + int(f[14])


def tree(root):
    """Every live descendant of root, itself included: {pid: stat}."""
    all_ = {}
    for d in os.listdir("/proc"):
        if d.isdigit():
            st = stat(int(d))
            if st:
                all_[int(d)] = st
    out, grow = {}, [root]
    while grow:
        p = grow.pop()
        if p in all_ and p not in out:
            out[p] = all_[p]
            grow += [q for q, s in all_.items() if s[0] == p]
    return out


def weigh(root):
    """The gateway's own CPU seconds and RSS, and how many back ends it keeps."""
    t = tree(root)
    own = [s for pid, s in t.items() if pid == root or not s[1].startswith("rig-")]
    back = [s for pid, s in t.items() if pid != root and s[1].startswith("rig-")]
    return {
        "cpu_s": sum(s[2] for s in own) / TICK,
        "rss": sum(s[3] for s in own),
        "procs": len(own),
        "backends": len(back),
        "backends_rss": sum(s[3] for s in back),
    }


def stop(proc):
    """Ends a process we started, and what it started, each by its own pid."""
    if proc is None:
        return
    pids = list(tree(proc.pid))
    for sig, wait in ((signal.SIGTERM, 4.0), (signal.SIGKILL, 2.0)):
        for p in ([proc.pid] if sig == signal.SIGTERM else pids):
            try:
                os.kill(p, sig)
            except OSError:
                pass
        try:
            proc.wait(wait)
        except subprocess.TimeoutExpired:
            continue
        pids = [p for p in pids if stat(p) and stat(p)[1] != "Z"]
        if not pids:
            return


class Neighbours:
    """The share of the machine's CPU that went to processes that are not ours."""

    def __init__(self):
        self.t0, self.all0, self.ours0 = time.time(), self.busy(), self.ours()

    @staticmethod
    def busy():
        v = [int(x) for x in open("/proc/stat").readline().split()[1:9]]
        return sum(v) - v[3] - v[4]

    @staticmethod
    def ours():
        return sum(s[2] + s[4] for s in tree(os.getpid()).values())

    def share(self):
        wall = (time.time() - self.t0) * TICK * os.cpu_count()
        return round(max(0.0, (self.busy() - self.all0 - (self.ours() - self.ours0)) / wall), 3)


class Sampler(threading.Thread):
    """Looks at a gateway's process tree while it is under load."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak_rss, self.peak_backends, self.go = pid, 0, 0, True

    def run(self):
        while self.go:
            w = weigh(self.pid)
            self.peak_rss = max(self.peak_rss, w["rss"])
            self.peak_backends = max(self.peak_backends, w["backends"])
            time.sleep(0.5)

    def end(self):
        self.go = False
        self.join(2)


def backends(n, tools, extra=()):
    return [subprocess.Popen([HTTP, "--port", str(BACK + i), "--name", f"s{i+1}", "--tools", str(tools), *extra],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for i in range(n)]


def loadgen(*args, timeout=120):
    try:
        r = subprocess.run([LOADGEN, *map(str, args)], capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"fatal": f"the load generator did not end within {timeout} s"}
    try:
        return json.loads(r.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return {"fatal": (r.stdout + r.stderr)[-300:]}



def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
