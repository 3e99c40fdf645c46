"""A server of the handshake era, on the official Python SDK v1. Over HTTP it offers Streamable HTTP with --http and HTTP+SSE
with --sse."""

import anyio
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.server.lowlevel import NotificationOptions
from mcp.server.stdio import stdio_server
from pydantic import AnyUrl

import memo
import web

COUNTER = AnyUrl("memo://counter")

server = FastMCP("python-handshake", instructions=memo.INSTRUCTIONS, log_level="WARNING", json_response=web.JSON)
counter = memo.Counter()
subscribed: set[AnyUrl] = set()
least_level = "debug"

memo.offer_tools(server, ToolError)
memo.offer_resources(server, counter)
memo.offer_prompts(server)

# FastMCP supports neither subscriptions nor log levels nor a version, but the low-level server inside it does.
inner = server._mcp_server
inner.version = "1.0.0"


@server.tool(description="Takes three steps and reports each")
async def slow(context: Context, pause: memo.Pause = 10) -> str:
    return await memo.work(pause, context)


@server.tool(description="Logs a text")
async def log(context: Context, text: memo.LogText, level: memo.LogLevel = "info") -> str:
    if memo.LEVELS.index(level) >= memo.LEVELS.index(least_level):
        await context.log(level, text, logger_name="peer")
    return "logged"


@server.tool(description="Asks for a name and greets it")
async def greet(context: Context) -> str:
    return memo.greeting(await context.elicit("What is your name?", memo.Name))


@server.tool(description="Asks the client's model")
async def think(context: Context, question: memo.Question) -> str:
    return memo.thought(await context.session.create_message([memo.question_message(question)], max_tokens=100))


@server.tool(description="Lists the client's roots")
async def roots(context: Context) -> str:
    return memo.root_list((await context.session.list_roots()).roots)


@server.tool(description="Changes memo://counter and says that the tools changed")
async def touch(context: Context) -> str:
    counter.value += 1
    if COUNTER in subscribed:
        await context.session.send_resource_updated(COUNTER)
    await context.session.send_tool_list_changed()
    return str(counter.value)


@inner.subscribe_resource()
async def subscribe(uri: AnyUrl) -> None:
    subscribed.add(uri)


@inner.unsubscribe_resource()
async def unsubscribe(uri: AnyUrl) -> None:
    subscribed.discard(uri)


@inner.set_logging_level()
async def set_level(level: str) -> None:
    global least_level
    least_level = level


create_options = inner.create_initialization_options


def initialization_options(*_):
    options = create_options(NotificationOptions(tools_changed=True))
    # The SDK supports subscriptions but does not declare them.
    options.capabilities.resources.subscribe = True
    return options


# The HTTP transport calls this method.
inner.create_initialization_options = initialization_options


async def main() -> None:
    async with stdio_server() as (incoming, outgoing):
        await inner.run(incoming, outgoing, initialization_options())


if web.STREAMABLE:
    web.serve(server.streamable_http_app())
elif web.SSE:
    web.serve(server.sse_app())
else:
    anyio.run(main)
