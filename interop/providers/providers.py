"""Three identity providers that have nothing in common but the standards, each on a loopback port of its own."""

import base64
import json
import os
import pathlib
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "clients"))
from gateway import place  # noqa: E402  (it lies beside the clients)

# No proxy of the environment stands between us and loopback.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def ask(url, body=None, headers=None, method=None):
    """Status and JSON of a response, with its headers."""
    request = urllib.request.Request(url, body, headers or {}, method=method)
    try:
        with opener.open(request, timeout=20) as response:
            status, got, text = response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        status, got, text = error.code, error.headers, error.read()
    try:
        return status, json.loads(text), got
    except ValueError:
        return status, text.decode(errors="replace"), got


def claims(token):
    body = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


class Provider:
    """A provider process. `folder` is for its files; the key is made with openssl."""

    algorithm = None

    def __init__(self, folder):
        self.folder, self.port, self.process, self.keys = pathlib.Path(folder), free_port(), None, 0
        self.folder.mkdir(parents=True, exist_ok=True)
        self.issuer = f"http://127.0.0.1:{self.port}"
        self.key = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def new_key(self):
        self.keys += 1
        self.key = self.folder / f"key-{self.keys}.pem"
        subprocess.run(["openssl", "genpkey", *self.algorithm, "-out", str(self.key)], check=True, capture_output=True)
        return self.key

    def start(self, key=None, seconds=600):
        """Starts it, with this key if there is one, else with its last one; it ends tokens after so many seconds."""
        self.stop()
        self.key = key or self.key or self.new_key()
        self.log = self.folder / "log"
        self.process = subprocess.Popen(self.command(seconds), stdout=self.log.open("a"), stderr=subprocess.STDOUT,
                                        env=self.environment())
        self.wait()
        self.prepare(seconds)
        return self

    def environment(self):
        return dict(os.environ, PYTHONDONTWRITEBYTECODE="1")

    def prepare(self, seconds):
        pass

    def wait(self):
        for _ in range(600):
            if self.process.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        sys.exit(f"{self.name} does not start: {self.log.read_text()}")

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def token(self, resource):
        """An access token of the client credentials grant (RFC 6749, RFC 8707)."""
        form = {"grant_type": "client_credentials", "scope": "mcp", "resource": resource}
        basic = base64.b64encode(b"robot:robot-secret").decode()
        headers = {"Authorization": f"Basic {basic}", "Content-Type": "application/x-www-form-urlencoded"}
        status, body, _ = ask(self.issuer + self.token_path, urllib.parse.urlencode(form).encode(), headers)
        if status != 200:
            sys.exit(f"{self.name} gives no token: {status} {body} {self.log.read_text()[-2000:]}")
        return body["access_token"]


class NpmProvider(Provider):
    name, needs, token_path = "oidc-provider (npm)", "TSUGI_TEST_NODE", "/token"
    algorithm = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]

    @staticmethod
    def is_there():
        node = place("TSUGI_TEST_NODE")
        return node and (node / "node_modules/oidc-provider").exists()

    def command(self, seconds):
        # Node looks for packages beside the script.
        script = place("TSUGI_TEST_NODE") / "oidc_provider.mjs"
        script.write_text((HERE / "oidc_provider.mjs").read_text())
        return ["node", str(script), str(self.port), str(self.key), str(seconds)]


class PythonProvider(Provider):
    name, needs, token_path = "authlib (PyPI)", "TSUGI_TEST_PROVIDERS", "/token"
    algorithm = ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]

    @staticmethod
    def is_there():
        return place("TSUGI_TEST_PROVIDERS")

    def command(self, seconds):
        python = place("TSUGI_TEST_PROVIDERS") / "bin/python"
        return [str(python), str(HERE / "authlib_server.py"), str(self.port), str(self.key), str(seconds)]


class DebianProvider(Provider):
    """glewlwyd with a database of its own, set up by its own interface for administrators."""

    name, needs, token_path = "glewlwyd (Debian)", "the program glewlwyd", "/api/idp/token"
    algorithm = ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]
    tables = pathlib.Path("/usr/share/dbconfig-common/data/glewlwyd/install/sqlite3")

    def __init__(self, folder):
        super().__init__(folder)
        self.host, self.issuer = self.issuer, self.issuer + "/api/idp"
        self.token_path = "/token"

    @classmethod
    def is_there(cls):
        return cls.tables.exists() and any(pathlib.Path(one, "glewlwyd").exists() for one in ("/usr/bin", "/bin"))

    def command(self, _):
        database = self.folder / "glewlwyd.db"
        database.unlink(missing_ok=True)
        with sqlite3.connect(database) as made:
            made.executescript(self.tables.read_text())
        config = self.folder / "glewlwyd.conf"
        modules = "\n".join(
            f'{kind}_module_path="/usr/lib/glewlwyd/{folder}"'
            for kind, folder in {"user": "user", "user_middleware": "user_middleware", "client": "client",
                                 "user_auth_scheme": "scheme", "plugin": "plugin"}.items()
        )
        config.write_text(f"""port={self.port}
bind_address="127.0.0.1"
external_url="{self.host}"
login_url="login.html"
api_prefix="api"
static_files_path="/usr/share/glewlwyd/webapp/"
log_mode="console"
log_level="WARNING"
cookie_domain="127.0.0.1"
cookie_secure=0
admin_scope="g_admin"
profile_scope="g_profile"
{modules}
hash_algorithm="SHA512"
database = {{ type = "sqlite3" path = "{database}" }};
""")
        return ["glewlwyd", "--config-file", str(config)]

    def prepare(self, seconds):
        def api(path, body):
            headers = {"Content-Type": "application/json", "Cookie": self.cookie}
            status, text, got = ask(f"{self.host}/api/{path}", json.dumps(body).encode(), headers)
            if status != 200:
                sys.exit(f"{self.name}: {path}: {status} {text} {self.log.read_text()[-2000:]}")
            return got

        self.cookie = ""
        # The password that its tables come with.
        got = api("auth/", {"username": "admin", "password": "password"})
        self.cookie = got["Set-Cookie"].split(";")[0]
        api("scope/", {"name": "mcp", "display_name": "mcp", "password_required": False})
        public = subprocess.run(["openssl", "pkey", "-in", str(self.key), "-pubout"], check=True, capture_output=True, text=True)
        api("mod/plugin/", {
            "module": "oidc", "name": "idp", "display_name": "idp", "order_rank": 0,
            "parameters": {
                "iss": self.issuer, "jwt-type": "rsa", "jwt-key-size": "256",
                "key": self.key.read_text(), "cert": public.stdout,
                "access-token-duration": seconds, "refresh-token-duration": 1209600, "code-duration": 600,
                "allow-non-oidc": True, "auth-type-client-enabled": True, "auth-type-code-enabled": True,
                "jwks-show": True, "resource-allowed": True, "resource-client-property": "resource",
                "resource-scope": {}, "resource-scope-and-client-property": False, "subject-type": "public",
                "allowed-scope": ["openid", "mcp"],
            },
        })
        api("client/", {
            "client_id": "robot", "name": "robot", "confidential": True, "enabled": True,
            "authorization_type": ["client_credentials"], "scope": ["mcp"], "resource": self.resources,
            "client_secret": "robot-secret", "token_endpoint_auth_method": ["client_secret_basic"],
        })

    resources = ["https://mcp.example", "https://mcp.example/mcp", "https://other.example"]


ALL = [NpmProvider, PythonProvider, DebianProvider]
