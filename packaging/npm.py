"""The npm packages: a launcher, and the program of one platform as its optional dependency, as biome ships its own."""
import gzip, io, json, tarfile

from common import ROOT, SUMMARY, build_time, compression, machine, version

CPU = {"x86_64": "x64", "aarch64": "arm64"}


def build(programs, out):
    platform = f"tsugi-linux-{CPU[machine()]}"
    launcher = (ROOT / "packaging/launcher.js").read_bytes()
    readme = (ROOT / "packaging/README-package.md").read_bytes()
    licence = (ROOT / "LICENSE").read_bytes()
    program = {"name": platform, "version": version(), "description": f"The program of tsugi for {platform[6:]}",
               "license": "Apache-2.0", "os": ["linux"], "cpu": [CPU[machine()]], "libc": ["glibc"]}
    front = {"name": "tsugi", "version": version(), "description": SUMMARY, "license": "Apache-2.0",
             "bin": {"tsugi": "bin/tsugi.js", "mcp-server-pm": "bin/mcp-server-pm.js"},
             "engines": {"node": ">=18"}, "optionalDependencies": {platform: version()}}
    return [pack(out, program, {"bin/tsugi": ((programs / "tsugi").read_bytes(), 0o755), "LICENSE": (licence, 0o644)}),
            pack(out, front, {"bin/tsugi.js": (launcher, 0o755), "bin/mcp-server-pm.js": (launcher, 0o755),
                              "README.md": (readme, 0o644), "LICENSE": (licence, 0o644)})]


def pack(out, manifest, files):
    """Writes the tarball that `npm pack` would write, with the same bytes each time."""
    path = out / f"{manifest['name']}-{manifest['version']}.tgz"
    text = json.dumps(manifest, indent=2) + "\n"
    with open(path, "wb") as file, gzip.GzipFile(fileobj=file, mode="wb", compresslevel=compression(), mtime=0, filename="") as zipped, \
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, (data, mode) in {"package.json": (text.encode(), 0o644), **files}.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode, entry.mtime = len(data), mode, build_time()
            tar.addfile(entry, io.BytesIO(data))
    return path
