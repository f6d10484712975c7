"""The official Python SDK 2.x signs in and calls: python_2.py URL WORD legacy|2026-07-28"""

import sys

import anyio
import httpx2
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

from sign_in import Redirect, Storage, say


async def main(url, word, era):
    redirect = Redirect()

    async def code():
        found = await redirect.wait()
        return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))

    metadata = OAuthClientMetadata.model_validate(redirect.metadata())
    auth = OAuthClientProvider(url, metadata, Storage(), redirect.open, code)
    async with httpx2.AsyncClient(auth=auth, follow_redirects=True, timeout=60) as http_client:
        async with Client(streamable_http_client(url, http_client=http_client), mode=era) as client:
            say(await client.call_tool("desk__echo", {"message": word}))


anyio.run(main, *sys.argv[1:4])
