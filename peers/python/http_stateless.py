"""A server of the stateless era over HTTP, on the official Python SDK v2, which also answers clients of the handshake era.

http_stateless.py [sse]: Streamable HTTP on /mcp, or HTTP+SSE on /sse and /messages.
"""

import sys
from typing import Annotated, Any

from mcp.server.mcpserver import Context, Elicit, ElicitationResult, MCPServer, Resolve, Sample
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.types import CreateMessageResult

import memo
import offer


class Events(offer.Events, EventStore):
    async def replay_events_after(self, last_event_id: str, send: Any) -> str:
        return await super().replay_events_after(last_event_id, send, EventMessage)


server = MCPServer("python-http-stateless", log_level="WARNING")


async def log(context: Context, level: str, text: str) -> None:
    await context.log(level, text)


async def changed(context: Context) -> None:
    await context.notify_tools_changed()


offer.offer(server, ToolError, Context, log, changed)


def ask_name() -> Elicit[memo.Name]:
    return Elicit("What is your name?", memo.Name)


@server.tool(structured_output=False)
async def greet(answer: Annotated[ElicitationResult[memo.Name], Resolve(ask_name)]) -> str:
    return memo.greeting(answer)


def ask_model(question: str) -> Sample:
    return Sample([memo.question_message(question)], max_tokens=100)


@server.tool(structured_output=False)
async def think(question: memo.Question, answer: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    return memo.thought(answer)


offer.serve(server.sse_app() if "sse" in sys.argv else server.streamable_http_app(event_store=Events()))
