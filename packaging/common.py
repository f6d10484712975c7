"""What all packages need to know: the version, the program's needs, and one time for every file."""
import os, pathlib, platform, re, subprocess, tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUMMARY = "Joins any MCP client to any MCP server: gateway, command and project memory for agents"


def version():
    with open(ROOT / "Cargo.toml", "rb") as file:
        return tomllib.load(file)["workspace"]["package"]["version"]


def machine():
    """The processor as Python and Linux name it."""
    return platform.machine()


def glibc_minor(program):
    """The newest glibc 2.x that the program asks for, so that packages promise neither more nor less."""
    needs = subprocess.run(["readelf", "-V", "--wide", program], capture_output=True, text=True, check=True).stdout
    return max((int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", needs)), default=17)


def compression():
    """The best that the formats have, except where a test packs a debug build that nobody downloads."""
    return 1 if os.environ.get("TSUGI_PACKAGE_QUICK") else 9


def build_time():
    """The same commit gives the same bytes: files carry its time, not the time of the build."""
    known = os.environ.get("SOURCE_DATE_EPOCH")
    if known:
        return int(known)
    asked = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
    return int(asked.stdout or 1_700_000_000)
