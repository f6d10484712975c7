"""The official Python SDK 2.x as a client of the gateway: python_2.py URL legacy|2026-07-28"""

import sys

import anyio
from mcp.client import Client
from mcp_types import ElicitResult

from report import Report, same, until


async def answer(_context, params):
    """The user."""
    same(params.message, "Who are you?")
    return ElicitResult(action="accept", content={"name": "Ann"})


async def said(client, tool, arguments=None):
    result = await client.call_tool(tool, arguments or {})
    assert not result.is_error, result
    return result.content[0].text


async def try_all(client, report):
    async def list_all(server):
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert f"{server}__echo" in tools, tools
        resources = [str(resource.uri) for resource in (await client.list_resources()).resources]
        assert f"{server}://text" in resources, resources
        prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
        assert f"{server}__greet" in prompts, prompts

    async def call(server):
        same(await said(client, f"{server}__echo", {"message": "hi"}), "hi")

    async def read(server):
        same((await client.read_resource(f"{server}://text")).contents[0].text, f"some {server} text")

    async def get(server):
        result = await client.get_prompt(f"{server}__greet", {"name": "Ann"})
        same(result.messages[0].content.text, "Greet Ann.")

    async def progress(server):
        steps = []

        async def heard(done, total, _message):
            steps.append((done, total))

        result = await client.call_tool(f"{server}__count", {"steps": 3}, progress_callback=heard)
        same(result.content[0].text, "done")
        same(steps, [(1, 3), (2, 3), (3, 3)])

    async def cancel(server):
        before = await said(client, f"{server}__given_up")
        begun = anyio.Event()

        async def heard(*_):
            begun.set()

        async with anyio.create_task_group() as group:
            group.start_soon(lambda: client.call_tool(f"{server}__wait", {}, progress_callback=heard))
            await begun.wait()
            group.cancel_scope.cancel()

        async def is_given_up():
            return await said(client, f"{server}__given_up") != before

        await until(is_given_up)

    async def elicit(server):
        same(await said(client, f"{server}__ask"), "hello Ann")

    await report.feature("list", list_all)
    await report.feature("call", call)
    await report.feature("read", read)
    await report.feature("get", get)
    await report.feature("progress", progress)
    await report.feature("elicit", elicit)
    await report.feature("cancel", cancel)


async def main(url, mode):
    async with Client(url, mode=mode, elicitation_callback=answer) as client:
        await try_all(client, Report())


anyio.run(main, sys.argv[1], sys.argv[2])
