"""A client of the handshake era that logs in, on the official Python SDK v1.

login_handshake.py <url>
"""

import sys

import anyio
import httpx
from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

from login import METADATA, Login, report


async def main() -> None:
    url, login = sys.argv[1], Login()

    async def callback() -> tuple[str, str | None]:
        return login.callback["code"], login.callback["state"]

    auth = OAuthClientProvider(url, OAuthClientMetadata(**METADATA), login, login.redirect, callback)

    def forget() -> None:
        auth.context.token_expiry_time = 1

    async with (
        httpx.AsyncClient(auth=auth, timeout=30) as http_client,
        streamable_http_client(url, http_client=http_client) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        await report(login, session.call_tool, forget)


anyio.run(main)
