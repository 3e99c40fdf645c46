"""A server on the official Python SDK v1, over its own WebSocket transport. It prints the port on which it listens."""

import socket
import sys
import threading
import warnings

import uvicorn
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.server.websocket import websocket_server
from pydantic import BaseModel

import memo


class Name(BaseModel):
    name: str


server = FastMCP("python-ws", instructions=memo.INSTRUCTIONS, log_level="WARNING")
memo.offer_tools(server, ToolError)


@server.tool(description="Takes three steps and reports each")
async def slow(context: Context, pause: memo.Pause = 10) -> str:
    return await memo.work(pause, context)


@server.tool(description="Asks for a name and greets it")
async def greet(context: Context) -> str:
    answer = await context.elicit("What is your name?", Name)
    return f"Hello, {answer.data.name}!"


async def serve(scope, receive, send) -> None:
    inner = server._mcp_server
    async with websocket_server(scope, receive, send) as streams:
        await inner.run(*streams, inner.create_initialization_options())


def end_with_input(uvicorn_server: uvicorn.Server) -> None:
    """Stops the server when the parent process closes its input."""
    sys.stdin.read()
    uvicorn_server.should_exit = True


warnings.simplefilter("ignore", DeprecationWarning)
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
config = uvicorn.Config(serve, log_level="error", lifespan="off", ws="websockets-sansio")
uvicorn_server = uvicorn.Server(config)
threading.Thread(target=end_with_input, args=(uvicorn_server,), daemon=True).start()
uvicorn_server.run(sockets=[listener])
