"""The Debian package: program, manual pages, completions and a systemd unit that is not enabled."""
import gzip, os, pathlib, subprocess, tempfile

from common import ROOT, SUMMARY, build_time, compression, glibc_minor, version

COMPLETIONS = {"bash": "usr/share/bash-completion/completions/tsugi",
               "zsh": "usr/share/zsh/vendor-completions/_tsugi",
               "fish": "usr/share/fish/vendor_completions.d/tsugi.fish"}


def build(programs, out):
    architecture = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()
    path = out / f"tsugi_{version()}_{architecture}.deb"
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder) / "tree"
        fill(tree, programs)
        size = sum(file.stat().st_size for file in tree.rglob("*") if file.is_file()) // 1024
        control = tree / "DEBIAN/control"
        control.parent.mkdir(mode=0o755)
        control.write_text(
            f"Package: tsugi\nVersion: {version()}\nArchitecture: {architecture}\n"
            "Maintainer: The tsugi contributors <tsugi@localhost>\nSection: net\nPriority: optional\n"
            f"Installed-Size: {size}\nDepends: libc6 (>= 2.{glibc_minor(programs / 'tsugi')}), libgcc-s1\n"
            f"Description: {SUMMARY}\n"
            " One program that supervises, sandboxes and bridges MCP servers over every\n"
            " transport and protocol revision, with a dashboard and a task board.\n")
        for file in [*tree.rglob("*"), tree]:
            os.utime(file, (build_time(), build_time()), follow_symlinks=False)
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(build_time())}
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", f"-z{compression()}", "--build", tree, path], check=True,
                       stdout=subprocess.DEVNULL, env=environment)
    return path


def fill(tree, programs):
    program = install(tree / "usr/bin/tsugi", (programs / "tsugi").read_bytes(), 0o755)
    # The program looks at the name that it is called by.
    (tree / "usr/bin/mcp-server-pm").symlink_to("tsugi")
    install(tree / "usr/lib/systemd/system/tsugi.service", (ROOT / "packaging/tsugi.service").read_bytes())
    for shell, path in COMPLETIONS.items():
        asked = subprocess.run([program, "completions", shell], capture_output=True, check=True)
        install(tree / path, asked.stdout)
    pages = tree / "usr/share/man/man1"
    pages.mkdir(parents=True)
    subprocess.run([program, "man", "--directory", pages], check=True, capture_output=True)
    for page in pages.iterdir():
        install(page.with_name(page.name + ".gz"), gzip.compress(page.read_bytes(), mtime=0))
        page.unlink()
    documents = tree / "usr/share/doc/tsugi"
    install(documents / "copyright", (ROOT / "LICENSE").read_bytes())
    install(documents / "changelog.gz", gzip.compress((ROOT / "CHANGELOG.md").read_bytes(), mtime=0))


def install(path, data, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)
    return path
