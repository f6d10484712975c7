"""A story with the project-management server, told by the official Python SDK.

story.py PROGRAM DB legacy|modern     the SDK 2.x
story.py PROGRAM DB first             the SDK 1.x, which knows only the legacy era
Three agents act, each with a process of its own; one of them hears of changes of the task.
"""

import contextlib
import sys

import anyio


class Agent:
    """An agent and its server; hides how the versions of the SDK differ."""

    def __init__(self, client):
        self.client = client

    async def act(self, tool, **arguments):
        """What a tool that must succeed answers."""
        result = (await self.client.call_tool(tool, arguments)).model_dump(by_alias=True, mode="json")
        assert not result.get("isError"), result
        return result["structuredContent"]


@contextlib.asynccontextmanager
async def agent(program, db, name, era, updates):
    arguments = ["--db", db, "--agent-id", name, "--tools", "standard"]
    connect = first if era == "first" else second
    async with connect(program, arguments, era, updates) as client:
        yield Agent(client)


@contextlib.asynccontextmanager
async def first(program, arguments, _era, updates):
    """The SDK 1.x."""
    from mcp import ClientSession, StdioServerParameters, stdio_client
    from mcp.types import ResourceUpdatedNotification

    async def heard(message):
        if isinstance(getattr(message, "root", None), ResourceUpdatedNotification):
            updates.append(str(message.root.params.uri))

    async with stdio_client(StdioServerParameters(command=program, args=arguments)) as (read, write):
        async with ClientSession(read, write, message_handler=heard) as session:
            await session.initialize()
            yield session


@contextlib.asynccontextmanager
async def second(program, arguments, era, updates):
    """The SDK 2.x."""
    from mcp import StdioServerParameters, stdio_client
    from mcp.client import Client
    from mcp_types import ResourceUpdatedNotification

    async def heard(message):
        if isinstance(message, ResourceUpdatedNotification):
            updates.append(str(message.params.uri))

    mode = "legacy" if era == "legacy" else "2026-07-28"
    transport = stdio_client(StdioServerParameters(command=program, args=arguments))
    async with Client(transport, mode=mode, message_handler=heard) as client:
        yield client


@contextlib.asynccontextmanager
async def hearing(client, uri, era, updates):
    """Hears of changes of a resource, each era in its way."""
    if era != "modern":
        from pydantic import AnyUrl

        await client.subscribe_resource(AnyUrl(uri) if era == "first" else uri)
        yield
        return
    async with client.listen(resource_subscriptions=[uri]) as subscription, anyio.create_task_group() as group:

        async def collect():
            async for event in subscription:
                updates.append(str(event.uri))

        group.start_soon(collect)
        yield
        group.cancel_scope.cancel()


async def tell(manager, ann, bob, era, updates):
    """From the first session to the review."""
    project = (await manager.act("list_projects"))["projects"][0]["id"]
    task = (await manager.act("create_task", project_id=project, title="Ship it"))["task"]["ref"]
    uri = f"task://{task}"
    async with hearing(manager.client, uri, era, updates):
        session = (await ann.act("start_session", project_id=project))["session_id"]
        claimed = await ann.act("claim_task", task_id=task, session_id=session)
        assert claimed["claimed"] is True, claimed
        await ann.act("add_context", task_id=task, content="use SQLite", type="decision", session_id=session)
        handoff = {"to_agent_id": "agt_bob", "summary": "half done", "next_steps": ["the rest"]}
        await ann.act("create_handoff", task_id=task, session_id=session, **handoff)
        waiting = await bob.act("get_pending_handoffs")
        accepted = await bob.act("accept_handoff", handoff_id=waiting["handoffs"][0]["id"])
        assert accepted["contexts"][0]["content"] == "use SQLite", accepted
        await bob.act("update_task_status", task_id=task, status="review", result={"summary": "works"})
        judged = await manager.act("review_task", task_id=task, verdict="approve")
        assert judged["task"]["status"] == "done", judged
        await bob.act("end_session", summary="shipped")
        await ann.act("end_session", summary="handed over", session_id=session)
        with anyio.fail_after(30):
            while not updates:
                await anyio.sleep(0.05)
        assert set(updates) == {uri}, updates


async def main(program, db, era):
    updates = []
    async with (
        agent(program, db, "agt_manager", era, updates) as manager,
        agent(program, db, "agt_ann", era, []) as ann,
        agent(program, db, "agt_bob", era, []) as bob,
    ):
        await tell(manager, ann, bob, era, updates)
    print("told")


anyio.run(main, *sys.argv[1:])
