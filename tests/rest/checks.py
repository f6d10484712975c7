"""What schemathesis must find besides its own checks: no error of the gateway itself, whatever is sent."""

import schemathesis

# Codes that say that the tool or its server answered so, not the gateway.
OF_THE_TOOL = {"TOOL_EXECUTION_ERROR", "UPSTREAM_ERROR"}


@schemathesis.check
def only_tools_fail(_context, response, _case):
    """A 5xx is the tool's own, and says so."""
    if response.status_code < 500:
        return
    code = response.json()["error"]["code"]
    assert code in OF_THE_TOOL, f"{response.status_code} {code}: {response.text}"
