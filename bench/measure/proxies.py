"""Ours beside nginx and HAProxy: HTTP in, HTTP or HTTPS out to the same echo server, all of them loaded turn by turn."""
import contextlib, json, os, pathlib, subprocess, tempfile, time

from .peers import PEERS, Peer, Running
from .process import HTTP, TSUGI, free_port, weigh
from .turns import Program, load, of, ratio, take

MIB = 1 << 20
ERAS, CALLERS, SIZES, WIRES = ("modern", "legacy"), (1, 64), (1024, 102400), ("http", "https")
# More connections than anyone keeps open to one gateway, for its memory.
CROWD = 1000
# So long after it has gone memory is looked at.
SETTLED = 11
DEBIAN = PEERS / "debian"

NGINX = """
daemon off; pid WORK/nginx.pid; error_log WORK/error.log; worker_processes auto; worker_rlimit_nofile 8192;
events { worker_connections 4096; }
http {
  access_log off; keepalive_requests 100000000; client_body_temp_path WORK/body; proxy_temp_path WORK/proxy;
  fastcgi_temp_path WORK/fastcgi; uwsgi_temp_path WORK/uwsgi; scgi_temp_path WORK/scgi;
  upstream back { server 127.0.0.1:BACK; keepalive 256; keepalive_requests 100000000; }
  server {
    listen 127.0.0.1:PORT;
    location / { proxy_pass WIRE://back; proxy_ssl_protocols TLSv1.3; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }
}
"""

HAPROXY = """
global
  maxconn 4096
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend front
  bind 127.0.0.1:PORT
  default_backend back
backend back
  http-reuse always
  server s1 127.0.0.1:BACK SECURE
"""


class Proxy(Peer):
    """A proxy in front of the one back end at `back`."""

    def __init__(self, back, wire, authority):
        self.back, self.wire, self.authority = back, wire, authority

    def there(self):
        return self.exe().exists()


class Nginx(Proxy):
    name = "nginx"

    def exe(self):
        return DEBIAN / "usr/sbin/nginx"

    def command(self, work, port, up, n, tools):
        text = NGINX.replace("WORK", str(work)).replace("PORT", str(port))
        (work / "nginx.conf").write_text(text.replace("BACK", str(self.back)).replace("WIRE", self.wire))
        return [str(self.exe()), "-p", str(work), "-c", str(work / "nginx.conf"), "-e", str(work / "error.log")]


class HaProxy(Proxy):
    name = "HAProxy"

    def exe(self):
        return DEBIAN / "usr/sbin/haproxy"

    def env(self):
        return {"LD_LIBRARY_PATH": str(DEBIAN / "usr/lib/x86_64-linux-gnu")}

    def command(self, work, port, up, n, tools):
        secure = "ssl verify none alpn http/1.1" if self.wire == "https" else ""
        text = HAPROXY.replace("PORT", str(port)).replace("BACK", str(self.back)).replace("SECURE", secure)
        (work / "haproxy.cfg").write_text(text)
        return [str(self.exe()), "-f", str(work / "haproxy.cfg"), "-db"]


class TsugiProxy(Proxy):
    """Ours with its defaults, at the address of one server. `exe` may be another build of it."""
    name = "tsugi"

    def __init__(self, back, wire, authority, program=TSUGI, env=()):
        super().__init__(back, wire, authority)
        self.program, self.environment = program, dict(env)

    def exe(self):
        return pathlib.Path(self.program)

    def env(self):
        return self.environment

    def urls(self, port, n):
        return [f"http://127.0.0.1:{port}/servers/s1/mcp"]

    def command(self, work, port, up, n, tools):
        server = {"name": "s1", "url": f"{self.wire}://localhost:{self.back}/mcp"}
        if self.wire == "https":
            server["tls"] = {"ca": [str(self.authority)], "only": True}
        (work / "tsugi.yaml").write_text(json.dumps({"servers": [server]}))
        return [str(self.program), "serve", "--listen", f"127.0.0.1:{port}", "--config", str(work / "tsugi.yaml"), "--quiet"]


def certificate(folder):
    """A certificate of this run for localhost, and its key in the same file."""
    pem, key = pathlib.Path(folder) / "back.pem", pathlib.Path(folder) / "back.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", key, "-out", pem],
                   check=True, capture_output=True)
    pem.write_text(pem.read_text() + key.read_text())
    return pem


def contenders():
    """Other builds of ours beside it: $RIG_BESIDE is `name=program` or `name=program,VARIABLE=value`, separated by `;`."""
    yield from (Nginx, HaProxy, TsugiProxy)
    for entry in filter(None, os.environ.get("RIG_BESIDE", "").split(";")):
        name, rest = entry.split("=", 1)
        program, *env = rest.split(",")
        settings = [word.split("=", 1) for word in env]

        def other(*where, name=name, program=program, settings=settings):
            proxy = TsugiProxy(*where, program=program, env=settings)
            proxy.name = name
            return proxy
        yield other


def chosen(variable, values):
    """The values that a variable of the environment picks, for a look at some cells only."""
    words = os.environ.get(variable)
    return [value for value in values if str(value) in words.split(",")] if words else values


def measure(turns):
    """The rounds by `who|wire|era|callers|size`, and each program's memory after them."""
    with contextlib.ExitStack() as stack:
        keep = lambda program: stack.enter_context(contextlib.closing(program))
        pem = certificate(stack.enter_context(tempfile.TemporaryDirectory()))
        backs = {"http": keep(Program(HTTP, "--port", "PORT")), "https": keep(Program(HTTP, "--port", "PORT", "--tls", pem))}
        running = {}
        for wire in chosen("RIG_WIRES", WIRES):
            for make in contenders():
                proxy = make(backs[wire].port, wire, pem)
                if proxy.there():
                    running[proxy.name, wire] = keep(Running(proxy, free_port(), "http", mode="modern")).ready()
        rounds = take(turns, *cells(backs["http"], running))
        for run in running.values():
            load(run.proc.pid, *run.peer.target(run.port, "modern", size=1024), concurrency=CROWD, seconds=2)
        time.sleep(SETTLED)
        crowd = {f"{who}|{wire}": weigh(run.proc.pid)["rss"] / MIB for (who, wire), run in running.items()}
        return {"rounds": rounds, "crowd": crowd}


def cells(back, running):
    for size in chosen("RIG_SIZES", SIZES):
        for callers in chosen("RIG_CALLERS", CALLERS):
            for era in chosen("RIG_ERAS", ERAS):
                direct = ["--url", back.url(), "--mode", era, "--size", size]
                cell = {f"direct|http|{era}|{callers}|{size}": turn(back.proc.pid, callers, direct)}
                for (who, wire), run in running.items():
                    target = run.peer.target(run.port, era, size=size)
                    cell[f"{who}|{wire}|{era}|{callers}|{size}"] = turn(run.proc.pid, callers, target)
                yield cell


def turn(pid, callers, arguments):
    return lambda: load(pid, *arguments, concurrency=callers, seconds=0.8, warm_up=0.2)


# ---- reading it --------------------------------------------------------------

def table(told):
    rounds = told["rounds"]
    yield "| result | callers | upstream | era | who | CPU µs per call | ÷ nginx | calls/s | ÷ direct | p50 ms | p99 ms | errors |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    for key in sorted(rounds[0], key=order):
        who, wire, era, callers, size = key.split("|")
        nginx, direct = "|".join(["nginx", wire, era, callers, size]), "|".join(["direct", "http", era, callers, size])
        if who == "direct":
            continue
        beside = f"{ratio(rounds, key, nginx, 'cpu'):.2f}" if nginx in rounds[0] else ""
        share = f"{ratio(rounds, key, direct, 'rate'):.2f}" if wire == "http" else ""
        cpu, rate, p50, p99 = (of(rounds, key, what) or 0 for what in ("cpu", "rate", "p50", "p99"))
        errors = sum(turn[key]["errors"] for turn in rounds)
        who = f"**{who}**" if who == "tsugi" else who
        yield (f"| {int(size):,} B | {callers} | {wire} | {era} | {who} | {cpu:.1f} | {beside} | {rate:,.0f} | {share} "
               f"| {p50 / 1000:.2f} | {p99 / 1000:.2f} | {errors or ''} |")


def order(key):
    who, wire, era, callers, size = key.split("|")
    return int(size), int(callers), wire, era, who


def memory_lines(told):
    """The most that each held after a load, and what it holds once a crowd of connections has gone."""
    for key, crowd in told["crowd"].items():
        who, wire = key.split("|")
        after = max(turn[name]["rss"] for turn in told["rounds"] for name in turn if name.startswith(f"{key}|")) / MIB
        yield f"| {who} | {wire} | {after:.1f} | {crowd:.1f} |"


def targets(told):
    rounds = told["rounds"]
    for size, words, most, share in (("1024", "1 KiB", 1.6, 0.55), ("102400", "100 KB", 1.5, 0.45)):
        for era in ERAS:
            for wire in WIRES:
                ours, nginx = (f"{who}|{wire}|{era}|64|{size}" for who in ("tsugi", "nginx"))
                if ours in rounds[0] and nginx in rounds[0]:
                    yield f"CPU per call ÷ nginx, {wire} upstream, {words}, {era}", ratio(rounds, ours, nginx, "cpu"), most, True
            ours, direct = (f"{who}|http|{era}|64|{size}" for who in ("tsugi", "direct"))
            if ours in rounds[0]:
                yield f"calls/s ÷ direct, http upstream, {words}, {era}", ratio(rounds, ours, direct, "rate"), share, False
    for wire in WIRES:
        yield (f"resident memory after a crowd of {CROWD:,} connections, {wire} upstream, MiB",
               told["crowd"].get(f"tsugi|{wire}"), 22, True)
