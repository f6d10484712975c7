"""The gateways that can be measured: how each is started in front of n servers, and where it is reached.

A peer gives, for an upstream kind and a number of servers, the command line and where to reach it. `modes` are the
downstream modes it is measured in. Peers are looked for under $RIG_PEERS; one that is not there is left out.
"""
import json, os, pathlib, random, shutil, subprocess, tempfile, time
import urllib.request

from .process import BACK, ROOT, STDIO, TSUGI, loadgen, stop

PEERS = pathlib.Path(os.environ.get("RIG_PEERS", ROOT / "target/bench/peers"))
NODE = os.environ.get("RIG_NODE", "node")


class Peer:
    name = ""
    modes = ("legacy",)
    upstreams = ("stdio",)
    aggregates = False  # one endpoint lists the tools of all servers
    many = False        # takes more than one server at all
    down = "http"

    def there(self):
        return True

    def urls(self, port, n):
        return [f"http://127.0.0.1:{port}/mcp"]

    def tool(self, n):
        return "echo"

    def target(self, port, mode, n=1, size=200):
        """loadgen arguments that say where and what to call."""
        out = ["--mode", mode, "--tool", self.tool(n), "--size", size]
        for u in self.urls(port, n):
            out += ["--url", u]
        return out

    def waits(self, port, mode, n, tools):
        out = ["--mode", mode, "--expect-tools", tools * (n if self.aggregates else 1)]
        for u in self.urls(port, n):
            out += ["--url", u]
        return out

    def env(self):
        return {}

    def prepare(self, work, port, up, n, tools):
        """Before the clock starts."""

    def after_start(self, work, port, up, n, tools):
        """Once the port answers, for peers set up over their API."""


def servers(up, n, tools):
    """mcpServers as most peers take it."""
    if up == "stdio":
        return {f"s{i+1}": {"command": STDIO, "args": ["--name", f"s{i+1}", "--tools", str(tools)]} for i in range(n)}
    return {f"s{i+1}": {"url": f"http://127.0.0.1:{BACK+i}/mcp"} for i in range(n)}


class Tsugi(Peer):
    """Ours, as a user gets it: the defaults, with all guards, limits and deadlines."""
    name, modes, upstreams, aggregates, many = "tsugi", ("legacy", "modern", "rest"), ("stdio", "http"), True, True

    def there(self):
        return TSUGI.exists()

    def tool(self, n):
        return "s1__echo"

    def target(self, port, mode, n=1, size=200):
        if mode != "rest":
            return super().target(port, mode, n, size)
        body = {"server": "s1", "toolName": "echo", "input": {"size": size}}
        return ["--mode", "rest", "--url", f"http://127.0.0.1:{port}/mcp/call", "--size", size, "--body", json.dumps(body)]

    def waits(self, port, mode, n, tools):
        if mode != "rest":
            return super().waits(port, mode, n, tools)
        return ["--mode", "rest", "--url", f"http://127.0.0.1:{port}/mcp/tools", "--contains", '"echo"']

    def command(self, work, port, up, n, tools):
        f = work / "tsugi.json"
        f.write_text(json.dumps({"mcpServers": servers(up, n, tools)}))
        return [str(TSUGI), "serve", "--listen", f"127.0.0.1:{port}", "--config", str(f), "--quiet"]


class AgentGateway(Peer):
    name, modes, upstreams, aggregates, many = "agentgateway", ("legacy", "modern"), ("stdio", "http"), True, True
    exe = PEERS / "bin/agentgateway"
    level = "error"

    def there(self):
        return self.exe.exists()

    def tool(self, n):
        return "echo" if n == 1 else "s1_echo"

    def env(self):
        return {"RUST_LOG": self.level, "ADMIN_ADDR": "127.0.0.1:15900", "STATS_ADDR": "127.0.0.1:15920",
                "READINESS_ADDR": "127.0.0.1:15921"}

    def command(self, work, port, up, n, tools):
        t = []
        for i in range(n):
            if up == "stdio":
                t.append({"name": f"s{i+1}", "stdio": {"cmd": STDIO, "args": ["--name", f"s{i+1}", "--tools", str(tools)]}})
            else:
                t.append({"name": f"s{i+1}", "mcp": {"host": f"http://127.0.0.1:{BACK+i}/mcp"}})
        cfg = {"binds": [{"port": port, "listeners": [{"routes": [{"backends": [{"mcp": {"targets": t}}]}]}]}]}
        f = work / "agentgateway.json"
        f.write_text(json.dumps(cfg))
        return [str(self.exe), "-f", str(f)]


class AgentGatewayInfo(AgentGateway):
    """With the access log it writes by default."""
    name, level = "agentgateway-log", "info"


class RustMcpProxy(Peer):
    """The crate mcp-proxy of crates.io (tower-mcp)."""
    name, modes, upstreams, aggregates, many = "mcp-proxy-rs", ("legacy", "modern"), ("stdio", "http"), True, True
    exe = PEERS / "bin/mcp-proxy-rs"

    def there(self):
        return self.exe.exists()

    def tool(self, n):
        return "s1/echo"

    def urls(self, port, n):
        return [f"http://127.0.0.1:{port}/"]

    def command(self, work, port, up, n, tools):
        t = [f'[proxy]\nname = "rig"\n[proxy.listen]\nhost = "127.0.0.1"\nport = {port}\n[observability]\naudit = false\nlog_level = "error"\n']
        for i in range(n):
            t.append(f'[[backends]]\nname = "s{i+1}"\n')
            if up == "stdio":
                t.append(f'transport = "stdio"\ncommand = "{STDIO}"\nargs = ["--name", "s{i+1}", "--tools", "{tools}"]\n')
            else:
                t.append(f'transport = "http"\nurl = "http://127.0.0.1:{BACK+i}/mcp"\n')
        f = work / "proxy.toml"
        f.write_text("".join(t))
        return [str(self.exe), "--config", str(f)]


class FastMcp(Peer):
    name, modes, upstreams, aggregates, many = "fastmcp", ("legacy", "modern"), ("stdio", "http"), True, True
    exe = PEERS / "py/fastmcp/bin/fastmcp"

    def there(self):
        return self.exe.exists()

    def tool(self, n):
        return "echo" if n == 1 else "s1_echo"

    def command(self, work, port, up, n, tools):
        f = work / "mcp.json"
        f.write_text(json.dumps({"mcpServers": servers(up, n, tools)}))
        return [str(self.exe), "run", str(f), "--transport", "http", "--host", "127.0.0.1", "--port", str(port),
                "--no-banner", "--log-level", "WARNING"]


class PyMcpProxy(Peer):
    name, many = "mcp-proxy-py", True
    exe = PEERS / "py/mcp-proxy/bin/mcp-proxy"

    def there(self):
        return self.exe.exists()

    def urls(self, port, n):
        if n == 1:
            return [f"http://127.0.0.1:{port}/mcp"]
        return [f"http://127.0.0.1:{port}/servers/s{i+1}/mcp" for i in range(n)]

    def command(self, work, port, up, n, tools):
        base = [str(self.exe), "--host", "127.0.0.1", "--port", str(port), "--log-level", "WARNING"]
        if n == 1:
            return base + ["--", STDIO, "--tools", str(tools)]
        for i in range(n):
            base += ["--named-server", f"s{i+1}", f"{STDIO} --name s{i+1} --tools {tools}"]
        return base


class Mcpo(Peer):
    name, modes, upstreams, many = "mcpo", ("rest",), ("stdio", "http"), True
    exe = PEERS / "py/mcpo/bin/mcpo"

    def there(self):
        return self.exe.exists()

    def prefixes(self, n):
        return [""] if n == 1 else [f"/s{i+1}" for i in range(n)]

    def target(self, port, mode, n=1, size=200):
        return ["--mode", "rest", "--url", f"http://127.0.0.1:{port}{self.prefixes(n)[0]}/echo", "--size", size,
                "--body", json.dumps({"size": size})]

    def waits(self, port, mode, n, tools):
        out = ["--mode", "rest", "--contains", '"/echo"']
        for p in self.prefixes(n):
            out += ["--url", f"http://127.0.0.1:{port}{p}/openapi.json"]
        return out

    def command(self, work, port, up, n, tools):
        base = [str(self.exe), "--host", "127.0.0.1", "--port", str(port), "--log-level", "WARNING"]
        if n > 1:
            f = work / "mcpo.json"
            s = servers(up, n, tools)
            for v in s.values():
                if "url" in v:
                    v["type"] = "streamable-http"
            f.write_text(json.dumps({"mcpServers": s}))
            return base + ["--config", str(f)]
        if up == "stdio":
            return base + ["--", STDIO, "--tools", str(tools)]
        return base + ["--server-type", "streamable-http", "--", f"http://127.0.0.1:{BACK}/mcp"]


class SuperGateway(Peer):
    name, modes = "supergateway", ("legacy", "modern")
    js = PEERS / "node/supergateway/node_modules/supergateway/dist/index.js"
    extra = ["--stateful"]

    def there(self):
        return self.js.exists()

    def command(self, work, port, up, n, tools):
        return [NODE, str(self.js), "--stdio", f"{STDIO} --tools {tools}", "--outputTransport", "streamableHttp",
                "--port", str(port), "--logLevel", "none", *self.extra]


class SuperGatewayStateless(SuperGateway):
    name, modes, extra = "supergateway-stateless", ("legacy",), []


class NodeMcpProxy(Peer):
    name, modes = "mcp-proxy-node", ("legacy", "modern")
    js = PEERS / "node/mcp-proxy/node_modules/.bin/mcp-proxy"

    def there(self):
        return self.js.exists()

    def command(self, work, port, up, n, tools):
        return [NODE, str(self.js), "--host", "127.0.0.1", "--port", str(port), "--server", "stream", "--",
                STDIO, "--tools", str(tools)]


class McpHub(Peer):
    """Its MCP endpoint is the HTTP+SSE transport of 2024, so its REST call is measured."""
    name, modes, upstreams, many = "mcp-hub", ("rest",), ("stdio", "http"), True
    js = PEERS / "node/mcp-hub/node_modules/mcp-hub/dist/cli.js"

    def there(self):
        return self.js.exists()

    def target(self, port, mode, n=1, size=200):
        return ["--mode", "rest", "--url", f"http://127.0.0.1:{port}/api/servers/tools", "--size", size,
                "--body", json.dumps({"server_name": "s1", "tool": "echo", "arguments": {"size": size}})]

    def waits(self, port, mode, n, tools):
        return ["--mode", "rest", "--url", f"http://127.0.0.1:{port}/api/health", "--contains", '"state":"ready"']

    def command(self, work, port, up, n, tools):
        f = work / "hub.json"
        f.write_text(json.dumps({"mcpServers": servers(up, n, tools)}))
        return [NODE, str(self.js), "--port", str(port), "--config", str(f)]


class McpRemote(Peer):
    """stdio downstream: the load generator is its parent, so no RSS from the rig."""
    name, upstreams, down = "mcp-remote", ("http",), "stdio"
    js = PEERS / "node/mcp-remote/node_modules/.bin/mcp-remote"

    def there(self):
        return self.js.exists()

    def target(self, port, mode, n=1, size=200):
        return ["--mode", mode, "--size", size, "--stdio",
                f"{NODE} {self.js} http://127.0.0.1:{BACK}/mcp --allow-http --transport http-only"]


class ContextForge(Peer):
    name, upstreams, aggregates, many = "contextforge", ("http",), True, True
    home = PEERS / "py/contextforge/bin"
    token = None

    def there(self):
        return (self.home / "mcpgateway").exists()

    def __init__(self):
        # Throw-away secrets for one run on loopback.
        self.secret = f"{random.getrandbits(320):080x}"
        self.secret2 = f"{random.getrandbits(320):080x}"

    def tool(self, n):
        return "s1-echo"

    def urls(self, port, n):
        return [f"http://127.0.0.1:{port}/mcp/"]

    def env(self):
        return {"JWT_SECRET_KEY": self.secret, "AUTH_ENCRYPTION_SECRET": self.secret2, "SSRF_ALLOW_LOCALHOST": "true",
                "DATABASE_URL": "sqlite:///./mcp.db", "PLATFORM_ADMIN_EMAIL": "admin@example.com",
                "LOG_LEVEL": "ERROR", "CACHE_TYPE": "memory"}

    def header(self):
        return ["--header", f"Authorization: Bearer {self.token}"]

    def target(self, *a, **k):
        return super().target(*a, **k) + self.header()

    def waits(self, *a):
        return super().waits(*a) + self.header()

    def command(self, work, port, up, n, tools):
        return [str(self.home / "mcpgateway"), "--host", "127.0.0.1", "--port", str(port), "--log-level", "error",
                "--no-access-log"]

    def prepare(self, work, port, up, n, tools):
        out = subprocess.run([str(self.home / "python"), "-m", "mcpgateway.utils.create_jwt_token", "--username",
                              "admin@example.com", "--exp", "10080", "--secret", self.secret, "--admin"],
                             capture_output=True, text=True, env={**os.environ, **self.env()}, cwd=work)
        self.token = out.stdout.strip().splitlines()[-1]

    def after_start(self, work, port, up, n, tools):
        end = time.time() + 120
        while time.time() < end:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).read()
                break
            except OSError:
                time.sleep(0.2)
        for i in range(n):
            body = json.dumps({"name": f"s{i+1}", "url": f"http://127.0.0.1:{BACK+i}/mcp", "transport": "STREAMABLEHTTP"})
            req = urllib.request.Request(f"http://127.0.0.1:{port}/gateways", body.encode(),
                                         {"content-type": "application/json", "authorization": f"Bearer {self.token}"})
            urllib.request.urlopen(req, timeout=60).read()


ALL = [Tsugi(), AgentGateway(), AgentGatewayInfo(), RustMcpProxy(), FastMcp(), PyMcpProxy(), Mcpo(), SuperGateway(), SuperGatewayStateless(),
       NodeMcpProxy(), McpHub(), McpRemote(), ContextForge()]


def pick(names, up=None):
    out = [p for p in ALL if p.there() and (not names or p.name in names) and (up is None or up in p.upstreams)]
    if not names:
        out = [p for p in out if p.name != "agentgateway-log"]
    return out


class Running:
    """A started peer."""

    def __init__(self, peer, port, up, n=1, tools=1, mode=None, keep=None, setup=True):
        self.peer, self.port, self.n, self.tools = peer, port, n, tools
        self.mode = mode or peer.modes[0]
        self.work = keep or pathlib.Path(tempfile.mkdtemp(prefix="rig-"))
        self.keep = keep is not None
        env = {**os.environ, "HOME": str(self.work), "XDG_STATE_HOME": str(self.work), **peer.env()}
        peer.prepare(self.work, port, up, n, tools)
        cmd = peer.command(self.work, port, up, n, tools)
        self.log = open(self.work / "log.txt", "wb")
        self.since = time.time_ns()
        self.proc = subprocess.Popen(cmd, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL,
                                     cwd=self.work, env=env)
        if setup:
            peer.after_start(self.work, port, up, n, tools)

    def wait(self, limit=120):
        return loadgen("wait", "--since-ns", self.since, "--limit", limit, "--timeout-ms", 20000,
                       *self.peer.waits(self.port, self.mode, self.n, self.tools), timeout=limit + 60)

    def ready(self):
        """Itself, once all its tools are listed."""
        told = self.wait(60)
        if not told.get("ok"):
            raise RuntimeError(f"{self.peer.name} is not ready: {told.get('last')}: {self.tail()}")
        return self

    def tail(self):
        try:
            return (self.work / "log.txt").read_bytes()[-600:].decode(errors="replace")
        except OSError:
            return ""

    def close(self):
        stop(self.proc)
        self.log.close()
        if not self.keep:
            shutil.rmtree(self.work, ignore_errors=True)
