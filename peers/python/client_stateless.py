"""A client of the stateless era, on the official Python SDK v2, which also supports servers of the handshake era.

client_stateless.py <url> [auto|2026-07-28|legacy|sse]
"""

import sys
import warnings
from typing import Any

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CreateMessageResult, ElicitResult, Implementation, TextContent

import conversation

warnings.simplefilter("ignore")

heard = conversation.Heard()
url = sys.argv[1]
mode = sys.argv[2] if len(sys.argv) > 2 else "auto"


async def elicit(context: Any, params: Any) -> ElicitResult:
    heard.questions.append(params.message)
    return ElicitResult(action="accept", content={"name": "Ann"})


async def sample(context: Any, params: Any) -> CreateMessageResult:
    content = params.messages[0].content
    first = content[0] if isinstance(content, list) else content
    answer = TextContent(type="text", text=f"{first.text} Paris.")
    return CreateMessageResult(role="assistant", content=answer, model="parrot")


def connection(server: Any) -> Client:
    return Client(
        server,
        mode="legacy" if mode == "sse" else mode,
        sampling_callback=sample,
        elicitation_callback=elicit,
        logging_callback=heard.log,
        log_level="info",
        message_handler=heard.message,
        client_info=Implementation(name="python-client-stateless", version="1.0.0"),
        cache=None,
    )


async def main() -> None:
    transport, state = conversation.breaking(httpx2, 5)
    http_client = httpx2.AsyncClient(transport=transport, timeout=30)
    server = sse_client(url) if mode == "sse" else streamable_http_client(url, http_client=http_client)
    async with http_client, connection(server) as client:
        await talk(client, state)
    conversation.tell(step="close", ok=True, value=None)


async def talk(client: Client, state: dict[str, Any]) -> None:
    modern = client.protocol_version >= "2026-07-28"
    talk = conversation.Talk(client, heard, MCPError)

    async def connect() -> dict[str, Any]:
        info = client.server_info
        return {"server": info and info.name, "version": client.protocol_version}

    async def logging() -> Any:
        if not modern:
            await client.set_logging_level("info")
        return await talk.log()

    async def give_up(scope: anyio.CancelScope) -> None:
        scope.cancel()

    async def change() -> bool:
        if not modern:
            return await talk.change()
        async with client.listen(tools_list_changed=True) as subscription:
            grown = await talk.grow()
            async for _ in subscription:
                return grown in await talk.tools()
        return False

    async def ping() -> dict[str, Any]:
        if modern:
            await client.session.discover()
            return {}
        return (await client.send_ping()).model_dump(exclude_none=True)

    async def resume() -> Any:
        if modern:
            return "not in this revision"
        state["armed"] = True
        counted = await talk.count(20)
        return {**counted, "broken": state["broken"], "resumed": state["resumed"] > 0}

    await conversation.hold(
        [
            ("connect", connect),
            *talk.steps(str, logging, give_up),
            ("change", change),
            ("ping", ping),
            *([] if mode == "sse" else [("resume", resume)]),
        ]
    )


conversation.run(main)
