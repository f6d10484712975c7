"""The official Python SDK 1.x signs in and calls: python_1.py URL WORD"""

import sys

import anyio
from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.auth import OAuthClientMetadata

from sign_in import Redirect, Storage, say


async def main(url, word):
    redirect = Redirect()

    async def code():
        found = await redirect.wait()
        return found["code"], found.get("state")

    metadata = OAuthClientMetadata.model_validate(redirect.metadata())
    auth = OAuthClientProvider(url, metadata, Storage(), redirect.open, code)
    async with streamablehttp_client(url, auth=auth) as (read, write, _), ClientSession(read, write) as session:
        await session.initialize()
        say(await session.call_tool("desk__echo", {"message": word}))


anyio.run(main, *sys.argv[1:3])
