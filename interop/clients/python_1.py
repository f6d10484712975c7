"""The official Python SDK 1.x as a client of the gateway: python_1.py URL"""

import sys

import anyio
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import CancelledNotification, CancelledNotificationParams, ClientNotification, ElicitResult
from pydantic import AnyUrl

from report import Report, same, until


async def answer(_context, params):
    """The user."""
    same(params.message, "Who are you?")
    return ElicitResult(action="accept", content={"name": "Ann"})


async def said(session, tool, arguments=None):
    result = await session.call_tool(tool, arguments or {})
    assert not result.isError, result
    return result.content[0].text


async def try_all(session, report):
    async def list_all(server):
        tools = [tool.name for tool in (await session.list_tools()).tools]
        assert f"{server}__echo" in tools, tools
        resources = [str(resource.uri) for resource in (await session.list_resources()).resources]
        assert f"{server}://text" in resources, resources
        prompts = [prompt.name for prompt in (await session.list_prompts()).prompts]
        assert f"{server}__greet" in prompts, prompts

    async def call(server):
        same(await said(session, f"{server}__echo", {"message": "hi"}), "hi")

    async def read(server):
        result = await session.read_resource(AnyUrl(f"{server}://text"))
        same(result.contents[0].text, f"some {server} text")

    async def get(server):
        result = await session.get_prompt(f"{server}__greet", {"name": "Ann"})
        same(result.messages[0].content.text, "Greet Ann.")

    async def progress(server):
        steps = []

        async def heard(done, total, _message):
            steps.append((done, total))

        result = await session.call_tool(f"{server}__count", {"steps": 3}, progress_callback=heard)
        same(result.content[0].text, "done")
        same(steps, [(1, 3), (2, 3), (3, 3)])

    async def cancel(server):
        before = await said(session, f"{server}__given_up")
        begun = anyio.Event()

        async def heard(*_):
            begun.set()

        async with anyio.create_task_group() as group:
            number = session._request_id  # this SDK has no public way to know or cancel a request
            group.start_soon(lambda: session.call_tool(f"{server}__wait", {}, progress_callback=heard))
            await begun.wait()
            params = CancelledNotificationParams(requestId=number, reason="enough")
            await session.send_notification(
                ClientNotification(CancelledNotification(method="notifications/cancelled", params=params))
            )

            async def is_given_up():
                return await said(session, f"{server}__given_up") != before

            await until(is_given_up)
            group.cancel_scope.cancel()

    async def elicit(server):
        same(await said(session, f"{server}__ask"), "hello Ann")

    await report.feature("list", list_all)
    await report.feature("call", call)
    await report.feature("read", read)
    await report.feature("get", get)
    await report.feature("progress", progress)
    await report.feature("elicit", elicit)
    await report.feature("cancel", cancel)


async def main(url):
    async with streamablehttp_client(url) as (read, write, _):
        async with ClientSession(read, write, elicitation_callback=answer) as session:
            await session.initialize()
            await try_all(session, Report())


anyio.run(main, sys.argv[1])
