"""A client of the handshake era, on the official Python SDK v1.

client_handshake.py <url> [streamable|sse]
"""

import sys
import warnings
from typing import Any

import anyio
import httpx
from mcp import ClientSession, McpError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import (
    CancelledNotification,
    CancelledNotificationParams,
    ClientNotification,
    CreateMessageResult,
    ElicitResult,
    Implementation,
    TextContent,
)
from pydantic import AnyUrl

import conversation

warnings.simplefilter("ignore", DeprecationWarning)

heard = conversation.Heard()


async def elicit(context: Any, params: Any) -> ElicitResult:
    heard.questions.append(params.message)
    return ElicitResult(action="accept", content={"name": "Ann"})


async def sample(context: Any, params: Any) -> CreateMessageResult:
    content = params.messages[0].content
    first = content[0] if isinstance(content, list) else content
    answer = TextContent(type="text", text=f"{first.text} Paris.")
    return CreateMessageResult(role="assistant", content=answer, model="parrot")


def session_over(streams: Any) -> ClientSession:
    return ClientSession(
        streams[0],
        streams[1],
        sampling_callback=sample,
        elicitation_callback=elicit,
        logging_callback=heard.log,
        message_handler=heard.message,
        client_info=Implementation(name="python-client-handshake", version="1.0.0"),
    )


async def talk(session: ClientSession, more: list[conversation.Step]) -> None:
    talk = conversation.Talk(session, heard, McpError)

    async def connect() -> dict[str, Any]:
        result = await session.initialize()
        return {"server": result.serverInfo.name, "version": result.protocolVersion}

    async def logging() -> Any:
        await session.set_logging_level("info")
        return await talk.log()

    # The SDK cannot cancel a call, so this sends the notification itself. The id is the last one of the SDK's counter.
    async def give_up(scope: anyio.CancelScope) -> None:
        params = CancelledNotificationParams(requestId=session._request_id - 1, reason="enough")
        await session.send_notification(ClientNotification(CancelledNotification(params=params)))
        scope.cancel()

    async def ping() -> dict[str, Any]:
        return (await session.send_ping()).model_dump(exclude_none=True)

    await conversation.hold(
        [
            ("connect", connect),
            *talk.steps(AnyUrl, logging, give_up),
            ("change", talk.change),
            ("ping", ping),
            *[(name, lambda step=step: step(talk)) for name, step in more],
        ]
    )


async def streamable(url: str) -> None:
    transport, state = conversation.breaking(httpx, 5)

    def client(**options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=transport, **options)

    async with streamablehttp_client(url, httpx_client_factory=client) as streams:

        async def resume(talk: conversation.Talk) -> dict[str, Any]:
            state["armed"] = True
            counted = await talk.count(20)
            return {**counted, "broken": state["broken"], "resumed": state["resumed"] > 0}

        async def has_session(talk: conversation.Talk) -> bool:
            return streams[2]() is not None

        async with session_over(streams) as session:
            await talk(session, [("resume", resume), ("session", has_session)])
    conversation.tell(step="close", ok=True, value=None)


async def sse(url: str) -> None:
    async with sse_client(url) as streams, session_over(streams) as session:
        await talk(session, [])
    conversation.tell(step="close", ok=True, value=None)


mode = sys.argv[2] if len(sys.argv) > 2 else "streamable"
conversation.run({"streamable": streamable, "sse": sse}[mode], sys.argv[1])
