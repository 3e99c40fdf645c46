"""The login of a client: the part that is the same for both SDKs. `../node/person.mjs` acts as the user."""

import json
import pathlib
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio

PERSON = pathlib.Path(__file__).parent.parent / "node" / "person.mjs"
METADATA = {
    "client_name": "peer",
    "redirect_uris": ["http://127.0.0.1:9/callback"],
    "grant_types": ["authorization_code", "refresh_token"],
}


class Login:
    """A token storage in memory, and the handlers that send the user to the pages of the provider."""

    def __init__(self) -> None:
        self.tokens: Any = None
        self.client: Any = None
        self.callback: dict[str, str] = {}
        self.logins = 0

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info

    async def redirect(self, url: str) -> None:
        self.logins += 1
        visited = await anyio.run_process(["node", str(PERSON), url])
        query = parse_qs(urlsplit(visited.stdout.decode().strip()).query)
        self.callback = {name: values[0] for name, values in query.items()}


async def report(login: Login, call: Callable[[str], Awaitable[Any]], forget: Callable[[], None]) -> None:
    """Calls a tool, renews the token, obtains more scopes, and prints a report. `forget` makes the access token unusable."""

    async def text(tool: str) -> str:
        return (await call(tool)).content[0].text

    read = await text("read")
    before = login.tokens
    forget()
    renewed = await text("read")
    rotated = login.tokens.refresh_token != before.refresh_token
    written = await text("write")
    outcome = {"read": read, "renewed": renewed, "rotated": rotated, "written": written, "logins": login.logins}
    print(json.dumps(outcome), flush=True)
