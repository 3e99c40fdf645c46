"""A client on the official Python SDK v1, over its own WebSocket transport.

It talks to the server at the URL it is given and prints what came of it as one line of JSON.
"""

import json
import sys
import warnings

import anyio
from mcp import ClientSession, types
from mcp.client.websocket import websocket_client


async def person(context, params) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ann"})


async def model(context, params) -> types.CreateMessageResult:
    return types.CreateMessageResult(role="assistant", model="peer", content=types.TextContent(type="text", text="Hello"))


async def main(url: str) -> None:
    steps = []
    long = "a\u00e4\U0001f980" * 50_000

    async def step(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    callbacks = {"elicitation_callback": person, "sampling_callback": model}
    async with websocket_client(url) as streams, ClientSession(*streams, **callbacks) as client:

        async def call(name: str, progress=None, **arguments) -> str:
            result = await client.call_tool(name, arguments, progress_callback=progress)
            return result.content[0].text

        heard = {
            "server": (await client.initialize()).serverInfo.name,
            "sum": await call("add", a=1, b=2),
            "greeting": await call("greet"),
            "steps": await call("steps", progress=step),
            "progress": steps,
            "echo": await call("echo", text=long) == long,
        }
    print(json.dumps(heard))


# The SDK emits a deprecation warning for each use of this transport.
warnings.simplefilter("ignore", DeprecationWarning)
anyio.run(main, sys.argv[1])
