"""A server of the stateless era, on the official Python SDK v2. The SDK also answers clients of the handshake era."""

from typing import Annotated

from mcp.server.mcpserver import Context, Elicit, ElicitationResult, ListRoots, MCPServer, Resolve, Sample
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CreateMessageResult, ListRootsResult

import memo
import web

server = MCPServer("python-stateless", version="1.0.0", instructions=memo.INSTRUCTIONS, log_level="WARNING")
counter = memo.Counter()

memo.offer_tools(server, ToolError)
memo.offer_resources(server, counter)
memo.offer_prompts(server)


@server.tool(description="Takes three steps and reports each")
async def slow(context: Context, pause: memo.Pause = 10) -> str:
    return await memo.work(pause, context)


@server.tool(description="Logs a text")
async def log(context: Context, text: memo.LogText, level: memo.LogLevel = "info") -> str:
    await context.log(level, text, logger_name="peer")
    return "logged"


def ask_name() -> Elicit[memo.Name]:
    return Elicit("What is your name?", memo.Name)


@server.tool(description="Asks for a name and greets it")
async def greet(answer: Annotated[ElicitationResult[memo.Name], Resolve(ask_name)]) -> str:
    return memo.greeting(answer)


def ask_model(question: str) -> Sample:
    return Sample([memo.question_message(question)], max_tokens=100)


@server.tool(description="Asks the client's model")
async def think(question: memo.Question, answer: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    return memo.thought(answer)


def ask_roots() -> ListRoots:
    return ListRoots()


@server.tool(description="Lists the client's roots")
async def roots(answer: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    return memo.root_list(answer.roots)


@server.tool(description="Changes memo://counter and says that the tools changed")
async def touch(context: Context) -> str:
    counter.value += 1
    await context.notify_resource_updated("memo://counter")
    await context.notify_tools_changed()
    return str(counter.value)


if web.STREAMABLE:
    web.serve(server.streamable_http_app(json_response=web.JSON))
elif web.SSE:
    web.serve(server.sse_app())
else:
    server.run()
