"""Installs each package as a person would, from an index on loopback and with empty caches, and uses it.

The index serves the packages that were built and nothing else, so a package that needs the internet fails here.
"""
import contextlib, hashlib, http.server, json, os, pathlib, shutil, subprocess, tarfile, tempfile, threading, time

from common import version

CALL = ["call", "calculate-bmi", "weight_kg=70", "height_m=1.75", "--json"]
WANTED = {"bmi": 22.86, "category": "normal"}


class PackageIndex(http.server.BaseHTTPRequestHandler):
    """The two index forms that pip, uv and npm read: a page of links, and a document per package."""
    packages = pathlib.Path()

    def do_GET(self):
        parts = self.path.strip("/").split("/")
        base = f"http://{self.headers['Host']}"
        file = self.packages / parts[-1]
        if parts[0] == "files" and file.is_file():
            return self.send("application/octet-stream", file.read_bytes())
        if parts[0] == "simple":
            links = [f'<a href="{base}/files/{wheel.name}">{wheel.name}</a>' for wheel in self.packages.glob("*.whl")]
            return self.send("text/html", "\n".join(links).encode())
        tarball = self.packages / f"{parts[0]}-{version()}.tgz"
        if tarball.is_file():
            return self.send("application/json", json.dumps(npm_document(tarball, base)).encode())
        self.send_error(404)

    def send(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    # uv asks for the size of a wheel first.
    do_HEAD = do_GET

    def log_message(self, *_):
        pass


def npm_document(tarball, base):
    with tarfile.open(tarball) as tar:
        manifest = json.load(tar.extractfile("package/package.json"))
    digest = hashlib.sha1(tarball.read_bytes()).hexdigest()
    manifest["dist"] = {"tarball": f"{base}/files/{tarball.name}", "shasum": digest}
    return {"name": manifest["name"], "dist-tags": {"latest": manifest["version"]},
            "versions": {manifest["version"]: manifest}}


@contextlib.contextmanager
def package_index(packages):
    PackageIndex.packages = packages
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), PackageIndex)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


class CleanHome:
    """A home directory with nothing in it, and the environment that points there."""

    def __init__(self, folder):
        self.path = pathlib.Path(folder)
        work = self.path / "work"
        work.mkdir()
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.environment = {**kept, "HOME": str(self.path), "npm_config_cache": str(self.path / "npm-cache"),
                            "npm_config_userconfig": str(self.path / "npmrc"), "npm_config_update_notifier": "false",
                            "UV_CACHE_DIR": str(self.path / "uv-cache"), "PIP_CONFIG_FILE": os.devnull,
                            "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        self.work = work

    def run(self, *command):
        done = subprocess.run([str(word) for word in command], cwd=self.work, env=self.environment, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=300)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def call(self, *command):
        """Calls a tool through the installed program and checks the answer."""
        answer = json.loads(self.run(*command, *CALL))
        result = answer.get("structuredContent", answer)
        assert all(result.get(key) == value for key, value in WANTED.items()), f"unexpected answer: {answer}"


def files_below(folder):
    return {path for path in folder.rglob("*") if path.is_file() or path.is_symlink()}


def try_pip(home, index, _):
    python = home.path / "venv/bin/python"
    home.run("python3", "-m", "venv", home.path / "venv")
    before = files_below(home.path / "venv")
    home.run(python, "-m", "pip", "install", "--no-compile", "--index-url", f"{index}/simple", "tsugi-mcp")
    home.call(home.path / "venv/bin/tsugi")
    assert "project" in home.run(home.path / "venv/bin/mcp-server-pm", "--help").lower()
    home.run(python, "-m", "pip", "uninstall", "--yes", "tsugi-mcp")
    left = {path for path in files_below(home.path / "venv") - before if "__pycache__" not in path.parts}
    assert not left, f"left behind: {left}"


def try_uvx(home, index, _):
    if not shutil.which("uvx"):
        return "uvx is not installed"
    home.call("uvx", "--default-index", f"{index}/simple", "tsugi-mcp")


def try_npx(home, index, _):
    if not shutil.which("npx"):
        return "npx is not installed"
    home.call("npx", "--yes", "--registry", index, "tsugi")


def try_npm(home, index, _):
    if not shutil.which("npm"):
        return "npm is not installed"
    # --ignore-scripts: nothing of ours may depend on one.
    home.run("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--registry", index, "tsugi")
    home.call(home.work / "node_modules/.bin/tsugi")
    assert "project" in home.run(home.work / "node_modules/.bin/mcp-server-pm", "--help").lower()
    home.run("npm", "uninstall", "--no-audit", "--no-fund", "--registry", index, "tsugi")
    left = {path for path in files_below(home.work) if "tsugi" in path.name}
    assert not left, f"left behind: {left}"


def try_deb(home, _, packages):
    found = list(packages.glob("*.deb"))
    if not found:
        return "there is no .deb"
    if os.getuid() != 0:
        return "installing a .deb needs root"
    root = home.path / "root"
    for folder in ("var/lib/dpkg/info", "var/lib/dpkg/updates"):
        (root / folder).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    # A system of its own, in which libc6 is not recorded.
    dpkg = ["dpkg", f"--root={root}", "--force-depends", "--force-not-root"]
    home.run(*dpkg, "--install", found[0])
    home.call(root / "usr/bin/tsugi")
    assert "project" in home.run(root / "usr/bin/mcp-server-pm", "--help").lower()
    for wanted in ("usr/lib/systemd/system/tsugi.service", "usr/share/man/man1/tsugi.1.gz"):
        assert (root / wanted).is_file(), f"{wanted} is missing"
    home.run(*dpkg, "--purge", "tsugi")
    left = {path for path in files_below(root) if "var/lib/dpkg" not in str(path) and "var/log" not in str(path)}
    assert not left, f"left behind: {left}"


def run(packages):
    failed = passed = 0
    with package_index(packages) as index:
        for trial in (try_pip, try_uvx, try_npm, try_npx, try_deb):
            with tempfile.TemporaryDirectory(prefix="tsugi-package-") as folder:
                start = time.monotonic()
                name = trial.__name__.removeprefix("try_")
                try:
                    reason = trial(CleanHome(folder), index, packages)
                except (AssertionError, subprocess.TimeoutExpired, OSError, ValueError) as error:
                    failed += 1
                    print(f"{name}: FAILED: {error}")
                    continue
                if reason:
                    print(f"skipped: {name}: {reason}")
                    continue
                passed += 1
                print(f"{name}: installed, called, {time.monotonic() - start:.1f} s")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0
