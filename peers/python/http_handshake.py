"""A server of the handshake era over HTTP, on the official Python SDK v1.

http_handshake.py [streamable|sse]: Streamable HTTP with sessions on /mcp, or HTTP+SSE on /sse and /messages.
"""

import sys
from typing import Any

from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.server.streamable_http import EventMessage, EventStore

import memo
import offer


class Events(offer.Events, EventStore):
    async def replay_events_after(self, last_event_id: str, send: Any) -> str:
        return await super().replay_events_after(last_event_id, send, EventMessage)


server = FastMCP("python-http-handshake", log_level="WARNING", event_store=Events())
least_level = "debug"


async def log(context: Context, level: str, text: str) -> None:
    if memo.LEVELS.index(level) >= memo.LEVELS.index(least_level):
        await context.log(level, text)


async def changed(context: Context) -> None:
    await context.session.send_tool_list_changed()


offer.offer(server, ToolError, Context, log, changed)


@server.tool(structured_output=False)
async def greet(context: Context) -> str:
    return memo.greeting(await context.elicit("What is your name?", memo.Name))


@server.tool(structured_output=False)
async def think(context: Context, question: str) -> str:
    message = memo.question_message(question)
    request = context.request_context.request_id
    return memo.thought(await context.session.create_message([message], max_tokens=100, related_request_id=request))


@server._mcp_server.set_logging_level()
async def set_level(level: str) -> None:
    global least_level
    least_level = level


offer.serve(server.sse_app() if "sse" in sys.argv else server.streamable_http_app())
