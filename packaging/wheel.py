"""The PyPI wheel: the programs as scripts, as ruff and uv ship theirs.

maturin would compile them again, without the profile-guided optimization of scripts/dist, so the wheel is written here.
"""
import base64, hashlib, time, zipfile

from common import ROOT, SUMMARY, build_time, compression, glibc_minor, machine, version

# `tsugi` belongs to another project there.
NAME = "tsugi-mcp"


def build(programs, out):
    stem = f"{NAME.replace('-', '_')}-{version()}"
    tag = f"py3-none-manylinux_2_{glibc_minor(programs / 'tsugi')}_{machine()}"
    metadata = (f"Metadata-Version: 2.4\nName: {NAME}\nVersion: {version()}\nSummary: {SUMMARY}\n"
                "License-Expression: Apache-2.0\nRequires-Python: >=3.8\n"
                "Description-Content-Type: text/markdown\n\n" + (ROOT / "packaging/README-package.md").read_text())
    launcher = (programs / "mcp-server-pm").read_bytes()
    files = [(f"{stem}.data/scripts/tsugi", (programs / "tsugi").read_bytes(), 0o755),
             (f"{stem}.data/scripts/mcp-server-pm", launcher, 0o755),
             # `uvx tsugi-mcp` runs the script of the package's own name.
             (f"{stem}.data/scripts/{NAME}", launcher, 0o755),
             (f"{stem}.dist-info/METADATA", metadata.encode(), 0o644),
             (f"{stem}.dist-info/WHEEL", f"Wheel-Version: 1.0\nGenerator: tsugi\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), 0o644),
             (f"{stem}.dist-info/licenses/LICENSE", (ROOT / "LICENSE").read_bytes(), 0o644)]
    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for name, data, _ in files)
    record += f"{stem}.dist-info/RECORD,,\n"
    files.append((f"{stem}.dist-info/RECORD", record.encode(), 0o644))
    path = out / f"{stem}-{tag}.whl"
    when = time.gmtime(build_time())[:6]
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data, mode in files:
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = (0o100000 | mode) << 16
            wheel.writestr(entry, data, zipfile.ZIP_DEFLATED, compression())
    return path


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
