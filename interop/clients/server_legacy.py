"""A server of the legacy era, written with the official Python SDK 1.x: what the clients are tested with."""

import anyio
from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

server = FastMCP("old", log_level="ERROR")
given_up_calls = 0


class Name(BaseModel):
    name: str


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
async def ask(ctx: Context) -> str:
    """Asks the user in the middle of the call."""
    answer = await ctx.elicit(message="Who are you?", schema=Name)
    return f"hello {answer.data.name}" if answer.action == "accept" else answer.action


@server.resource("old://text", name="text", mime_type="text/plain")
def read_text() -> str:
    """Some text."""
    return "some old text"


@server.prompt()
def greet(name: str) -> str:
    """A greeting."""
    return f"Greet {name}."


if __name__ == "__main__":
    server.run("stdio")
