"""What schemathesis must find besides its own checks: no error of the gateway itself, whatever is sent."""

import schemathesis

# The code that says that the tool answered so. The gateway's own faults can have it too, and then say whose they are.
OF_THE_TOOL = "TOOL_EXECUTION_ERROR"


@schemathesis.check
def only_tools_fail(_context, response, _case):
    """A 5xx is the tool's own, and says so."""
    if response.status_code < 500:
        return
    error = response.json()["error"]
    details = error.get("details") or {}
    is_own = isinstance(details, dict) and details.get("origin") == "tsugi"
    assert error["code"] == OF_THE_TOOL and not is_own, f"{response.status_code}: {response.text}"
