"""What the security bench owns: names, addresses, a provider, sinks and the journals of the servers.

Everything lives in a network namespace whose only device is loopback, so that addresses of clouds, private networks and
the internet are all addresses of this machine, and nothing leaves it.
"""

import base64
import contextlib
import hashlib
import http.client
import http.server
import json
import os
import pathlib
import secrets
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

PUBLIC_URL = "https://mcp.example"
# An address that every list calls public. Here it is this machine.
OUTSIDE = "93.184.216.34"
METADATA = "169.254.169.254"
PRIVATE = "10.1.2.3"
HERE = pathlib.Path(__file__).resolve().parent
SECRET = ("BENCH_SECRET", "the-gateways-own-secret")


def enter_namespace():
    """Starts this program again inside a namespace of its own; says why when that cannot be done."""
    if os.environ.get("TSUGI_BENCH_INSIDE"):
        for command in (
            ["ip", "link", "set", "lo", "up"],
            *(["ip", "address", "add", f"{one}/32", "dev", "lo"] for one in (OUTSIDE, METADATA, PRIVATE)),
        ):
            subprocess.run(command, check=True)
        # Port 53 of this loopback is ours.
        resolver = pathlib.Path(tempfile.gettempdir()) / f"tsugi-bench-resolv-{os.getpid()}"
        resolver.write_text("nameserver 127.0.0.1\noptions attempts:1 timeout:2\n")
        subprocess.run(["mount", "--bind", str(resolver), "/etc/resolv.conf"], check=True)
        resolver.unlink()
        return None
    inside = ["unshare", "--user", "--map-root-user", "--net", "--mount"]
    try:
        can = subprocess.run([*inside, "ip", "link", "set", "lo", "up"], capture_output=True, text=True)
    except FileNotFoundError as error:
        return f"{error.filename} is not installed"
    if can.returncode:
        return f"no network namespace: {can.stderr.strip()}"
    os.environ["TSUGI_BENCH_INSIDE"] = "1"
    os.execvp(inside[0], [*inside, sys.executable, *sys.argv])


class NameServer(threading.Thread):
    """Answers questions for IPv4 addresses. A name with several answers gives them one after the other, the last for ever."""

    def __init__(self):
        super().__init__(daemon=True)
        self.answers, self.asked = {}, []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))
        self.start()

    def say(self, name, *addresses):
        self.answers[name] = list(addresses)

    def run(self):
        while True:
            query, asker = self.socket.recvfrom(4096)
            labels, at = [], 12
            while query[at]:
                labels.append(query[at + 1 : at + 1 + query[at]].decode())
                at += 1 + query[at]
            question = query[12 : at + 5]
            name, kind = ".".join(labels).lower(), struct.unpack("!H", query[at + 1 : at + 3])[0]
            found = self.answers.get(name)
            address = None
            if kind == 1 and found:
                address = found.pop(0) if len(found) > 1 else found[0]
                self.asked.append((name, address))
            # Authoritative; "no such name" where nothing is known.
            flags = 0x8580 if found else 0x8583
            reply = query[:2] + struct.pack("!5H", flags, 1, 1 if address else 0, 0, 0) + question
            if address:
                reply += struct.pack("!HHHIH", 0xC00C, 1, 1, 0, 4) + socket.inet_aton(address)
            self.socket.sendto(reply, asker)


class Listener:
    """An HTTP server on every address of the namespace, in a thread."""

    def __init__(self, answer, port=0):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status, headers, body = answer(self)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                try:
                    self.end_headers()
                    self.wfile.write(body)
                except ConnectionError:
                    # Who only wanted to reach us does not wait for the answer.
                    self.close_connection = True

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            address_family = socket.AF_INET6
            daemon_threads = True

            def server_bind(self):
                self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                super().server_bind()

        self.server = Server(("::", port), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Sink(Listener):
    """Writes down what reached which address, and answers; a path `/to/…` is a redirect to the rest of it."""

    def __init__(self, port=0):
        self.reached = []

        def answer(request):
            address = request.connection.getsockname()[0].removeprefix("::ffff:")
            self.reached.append((address, request.path))
            if request.path.startswith("/to/"):
                return 302, {"Location": urllib.parse.unquote(request.path[4:])}, b""
            return 200, {}, b"here"

        super().__init__(answer, port)

    def count(self, word, address=None):
        return sum(word in path and address in (None, at) and not path.startswith("/to/") for at, path in self.reached)


def encode(value):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value):
    return encode(value.to_bytes((value.bit_length() + 7) // 8, "big"))


class SigningKey:
    """An RSA key that signs whatever it is given (RS256, RFC 7518)."""

    def __init__(self, name):
        self.name, e = name, 65537
        p, q = prime(1024), prime(1024)
        self.n, self.e, self.d = p * q, e, pow(e, -1, (p - 1) * (q - 1))

    def jwk(self):
        return {"kty": "RSA", "kid": self.name, "use": "sig", "alg": "RS256", "n": number(self.n), "e": number(self.e)}

    def sign(self, claims):
        text = encode({"alg": "RS256", "typ": "at+jwt", "kid": self.name}) + "." + encode(claims)
        digest = bytes.fromhex("3031300d060960864801650304020105000420") + hashlib.sha256(text.encode()).digest()
        size = (self.n.bit_length() + 7) // 8
        padded = b"\x00\x01" + b"\xff" * (size - len(digest) - 3) + b"\x00" + digest
        return text + "." + encode(pow(int.from_bytes(padded, "big"), self.d, self.n).to_bytes(size, "big"))


def prime(bits):
    """A random prime with its two highest bits set, by Miller and Rabin's test."""
    small = [3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97]

    def is_prime(n):
        if any(n % one == 0 for one in small):
            return False
        r = (n - 1 & 1 - n).bit_length() - 1
        for _ in range(24):
            x = pow(secrets.randbelow(n - 3) + 2, (n - 1) >> r, n)
            if x not in (1, n - 1) and all((x := x * x % n) != n - 1 for _ in range(r - 1)):
                return False
        return True

    while True:
        candidate = secrets.randbits(bits) | 3 << bits - 2 | 1
        if candidate % 65537 != 1 and is_prime(candidate):
            return candidate


class Provider(Listener):
    """An OAuth provider with one issuer for each tenant, that publishes its key."""

    def __init__(self):
        self.key = SigningKey("bench")

        def answer(request):
            path = request.path
            if path == "/keys":
                body = {"keys": [self.key.jwk()]}
            elif path.startswith("/.well-known/"):
                body = {"issuer": self.issuer(path.rsplit("/", 1)[1]), "jwks_uri": f"http://127.0.0.1:{self.port}/keys"}
            else:
                return 404, {}, b""
            return 200, {"Content-Type": "application/json"}, json.dumps(body).encode()

        super().__init__(answer)

    def issuer(self, tenant):
        return f"http://127.0.0.1:{self.port}/{tenant}"

    def claims(self, person, tenant):
        now = int(time.time())
        claims = {"iss": self.issuer(tenant), "aud": PUBLIC_URL, "sub": person, "org": tenant, "iat": now - 1000}
        return claims | {"exp": now + 900, "scope": "mcp"}

    def token(self, person, tenant, **changes):
        return self.key.sign(self.claims(person, tenant) | changes)


class Answer:
    """What a client received for one message."""

    def __init__(self, status, body):
        self.status, self.body = status, body
        self.message = body if isinstance(body, dict) else {}
        is_good = status < 400 and "result" in self.message
        self.was_served = is_good and not self.message["result"].get("isError", False)

    def names(self):
        return [tool["name"] for tool in self.message.get("result", {}).get("tools", [])]

    def tool(self, name):
        return next((tool for tool in self.message.get("result", {}).get("tools", []) if tool["name"] == name), None)

    def __contains__(self, text):
        return text in json.dumps(self.body)


class Client:
    """An MCP client with a token, or with none, in one of the two eras."""

    addresses = (f"127.1.{high}.{low}" for high in range(256) for low in range(1, 255))

    def __init__(self, url, token, era):
        self.url, self.token, self.era, self.count, self.session = url, token, era, 0, None
        # Each comes from an address of its own: after too many wrong tokens from one, even good ones must wait.
        self.address = next(self.addresses)

    def open_session(self, version="2025-11-25"):
        """Greets in the legacy era. The session may be refused: what is asked next shows it."""
        hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.post(self.request("initialize", hello))
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def request(self, method, params):
        self.count += 1
        return {"jsonrpc": "2.0", "id": self.count, "method": method, "params": params}

    def ask(self, method, params=None, headers=None, path="/mcp"):
        params = dict(params or {})
        if self.era == "legacy":
            if not self.session:
                self.open_session()
            return self.post(self.request(method, params), headers, path)
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params["_meta"] = meta | params.get("_meta", {})
        of_era = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        if name := params.get("name", params.get("uri")):
            # As the specification encodes what a header cannot carry.
            plain = name == name.strip() and name.isascii()
            of_era["Mcp-Name"] = name if plain else f"=?base64?{base64.b64encode(name.encode()).decode()}?="
        return self.post(self.request(method, params), of_era | (headers or {}), path)

    def call(self, name, headers=None, path="/mcp", meta=None, **arguments):
        params = {"name": name, "arguments": arguments} | ({"_meta": meta} if meta else {})
        return self.ask("tools/call", params, headers, path)

    def tools(self):
        return self.ask("tools/list")

    def batch(self, calls):
        """Sends calls as one JSON-RPC batch, which the revision 2025-03-26 has, and gives the answers in their order."""
        self.open_session("2025-03-26")
        requests = [self.request("tools/call", {"name": name, "arguments": arguments}) for name, arguments in calls]
        got = self.post(requests)
        found = {one.get("id"): one for one in got.body if isinstance(one, dict)} if isinstance(got.body, list) else {}
        return [Answer(got.status, found.get(one["id"], {})) for one in requests]

    def post(self, body, headers=None, path="/mcp"):
        all_headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.token:
            all_headers["Authorization"] = f"Bearer {self.token}"
        if self.session:
            all_headers["Mcp-Session-Id"] = self.session
        place = urllib.parse.urlsplit(self.url)
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=60, source_address=(self.address, 0))
        with contextlib.closing(connection):
            connection.request("POST", path, json.dumps(body).encode(), all_headers | (headers or {}))
            response = connection.getresponse()
            text = response.read().decode()
        self.session = response.headers.get("Mcp-Session-Id", self.session)
        return Answer(response.status, parse(text, isinstance(body, list)))


def parse(text, is_batch):
    """A JSON body, or the last message of an event stream; of a batch, all messages."""
    lines = (line.removeprefix("data:").strip() for line in text.splitlines() if line.startswith("data:"))
    events = [json.loads(line) for line in lines if line]
    if events:
        return events if is_batch else events[-1]
    try:
        return json.loads(text)
    except ValueError:
        return text


class Target:
    """A gateway under test with its folder: the journal of its servers, and its own audit log."""

    def __init__(self, world):
        self.world, self.folder = world, tempfile.TemporaryDirectory(prefix="tsugi-bench-")
        self.path = pathlib.Path(self.folder.name)
        self.journal_file, self.audit_file = self.path / "journal", self.path / "audit.jsonl"
        self.log = self.path / "log"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.folder.cleanup()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def journal(self, **wanted):
        """The entries with these members. A text is looked for in the whole entry with `text`."""
        text = wanted.pop("text", "")
        lines = self.journal_file.read_text().splitlines() if self.journal_file.exists() else []
        entries = [json.loads(line) for line in lines if text in line]
        return [one for one in entries if all(one.get(key) == value for key, value in wanted.items())]

    def audit(self):
        return self.audit_file.read_text() if self.audit_file.exists() else ""

    def client(self, token, era):
        return Client(self.url, token, era)

    def alice(self, era):
        return self.client(self.world.provider.token("alice", "acme"), era)

    def bob(self, era):
        return self.client(self.world.provider.token("bob", "globex"), era)


class Careless(Target):
    """The control."""

    name = "careless"

    def __init__(self, world):
        super().__init__(world)
        command = [sys.executable, str(HERE / "careless.py"), str(HERE / "upstream.py"), self.folder.name]
        environment = dict(os.environ, **dict([SECRET]))
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"


class Tsugi(Target):
    """`tsugi serve` with tokens, permits, tenants, pins, a sandbox with a list of hosts, and an audit log."""

    name = "tsugi"

    def __init__(self, world, program):
        super().__init__(world)
        config = self.path / "tsugi.json"
        config.write_text(json.dumps(self.settings(world)))
        environment = dict(os.environ, XDG_STATE_HOME=str(self.path / "state"), **dict([SECRET]))
        command = [program, "serve", "--config", str(config)]
        self.process = subprocess.Popen(command, stderr=self.log.open("w"), env=environment)
        names = [server["name"] for server in self.settings(world)["servers"]]
        # An instance for each session is started with its session.
        names.remove("memory")
        for _ in range(1200):
            text = self.log.read_text()
            if all(f"{name}: connected" in text for name in names):
                break
            if self.process.poll() is not None:
                sys.exit(f"the gateway does not start: {text}")
            time.sleep(0.05)
        else:
            sys.exit(f"the servers do not start: {text}")
        self.url = text.split("listening on ", 1)[1].split()[0]

    def settings(self, world):
        def server(name, **more):
            args = [str(HERE / "upstream.py"), name, str(self.journal_file)]
            return {"name": name, "command": sys.executable, "args": args, "pin": "off", **more}

        listed = [f"{name}:{world.sink.port}" for name in ("good.test", "internal.test", "rebind.test", "hop.test")]
        sandbox = {
            "net": {"allow": [*listed, f"{METADATA}:80"]},
            "read": [str(HERE), sys.prefix, sys.base_prefix],
            "write": [str(self.path)],
            "caches": "none",
        }
        issuers = [
            {
                "name": tenant,
                "issuer": world.provider.issuer(tenant),
                "insecureLoopback": True,
                "claims": {"tenant": "/org"},
                **permit,
            }
            for tenant, permit in {
                "acme": {"deny": ["desk/admin_ping", "desk/salary", "desk/note://hidden"]},
                "globex": {"allow": ["desk/echo", "acme", "globex", "memory"]},
            }.items()
        ]
        return {
            "servers": [
                server("desk"),
                server("acme", tenants=["acme"]),
                server("globex", tenants=["globex"]),
                server("memory", instances="per-session"),
                server("reach", sandbox=sandbox),
                server("pinned", pin={"mode": "tofu", "strictArguments": True, "lint": "off"}),
                server("first", naming="bare"),
                server("second", naming="bare"),
            ],
            "gateway": {
                "listen": "127.0.0.1:0",
                "publicUrl": PUBLIC_URL,
                "auth": {"issuers": issuers, "scopes": {"base": ["mcp"]}},
            },
            "audit": {"file": str(self.audit_file)},
        }


class World:
    """Everything outside the gateway."""

    def __init__(self):
        self.names, self.sink, self.metadata, self.provider = NameServer(), Sink(), Sink(80), Provider()
        # Another key under the provider's name for its own.
        self.forger = SigningKey(self.provider.key.name)
