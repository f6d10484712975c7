"""A server that is used in the modern era, written with the official Python SDK 2.x."""

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

server = MCPServer("new", log_level="ERROR")
given_up_calls = 0
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@server.tool()
def echo(message: str) -> str:
    """Says it again."""
    return message


@server.tool()
async def count(steps: int, ctx: Context) -> str:
    """Counts, and tells how far it is."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps)
    return "done"


@server.tool()
async def wait(ctx: Context) -> str:
    """Never ends by itself; tells that it has begun."""
    global given_up_calls
    await ctx.report_progress(1)
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        given_up_calls += 1
        raise


@server.tool()
def given_up() -> str:
    """How many calls of `wait` were given up."""
    return str(given_up_calls)


@server.tool()
async def ask(ctx: Context) -> str | InputRequiredResult:
    """Asks the user: the answer comes with the next try of the same call."""
    answer = (ctx.input_responses or {}).get("who")
    if answer is None:
        params = ElicitRequestFormParams(message="Who are you?", requested_schema=NAME)
        return InputRequiredResult(input_requests={"who": ElicitRequest(params=params)})
    return f"hello {answer.content['name']}" if answer.action == "accept" else answer.action


@server.resource("new://text", name="text", mime_type="text/plain")
def read_text() -> str:
    """Some text."""
    return "some new text"


@server.prompt()
def greet(name: str) -> str:
    """A greeting."""
    return f"Greet {name}."


if __name__ == "__main__":
    server.run("stdio")
