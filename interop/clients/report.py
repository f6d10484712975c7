"""What every client in Python shares: the features to try, one after the other, and the report the runner reads."""

import json
import sys
import traceback

import anyio

SERVERS = ("old", "new")


class Report:
    """Tries features and prints one JSON line for each."""

    async def feature(self, name, attempt):
        """Runs an attempt against the legacy server and the modern one."""
        for server in SERVERS:
            try:
                with anyio.fail_after(30):
                    await attempt(server)
            except BaseException as error:  # also a group of errors, or a cancellation that got loose
                traceback.print_exc(file=sys.stderr)
                return print(json.dumps({"feature": name, "error": f"{server}: {error!r}"}), flush=True)
        print(json.dumps({"feature": name}), flush=True)


def same(found, expected):
    """Complains unless both are equal."""
    assert found == expected, f"{found!r} is not {expected!r}"


async def until(condition):
    """Waits for a condition that another process makes true."""
    while not await condition():
        await anyio.sleep(0.05)
