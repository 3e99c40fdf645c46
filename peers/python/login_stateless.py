"""A client of the stateless era that logs in, on the official Python SDK v2.

login_stateless.py <url> [auto|2026-07-28|legacy]
"""

import sys

import anyio
import httpx2
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

from login import METADATA, Login, report


async def main() -> None:
    url, login = sys.argv[1], Login()
    mode = sys.argv[2] if len(sys.argv) > 2 else "auto"

    async def callback() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(**login.callback)

    auth = OAuthClientProvider(url, OAuthClientMetadata(**METADATA), login, login.redirect, callback)

    def forget() -> None:
        auth.context.token_expiry_time = 1

    async with (
        httpx2.AsyncClient(auth=auth, timeout=30) as http_client,
        Client(streamable_http_client(url, http_client=http_client), mode=mode) as client,
    ):
        await report(login, client.call_tool, forget)


anyio.run(main)
