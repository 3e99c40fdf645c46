"""HTTP for the servers of this directory that are started with --http or --sse. They listen on a free port of 127.0.0.1 and print
their URL."""

import socket
import sys

import anyio
import uvicorn

STREAMABLE = "--http" in sys.argv
SSE = "--sse" in sys.argv
JSON = "--json" in sys.argv


class Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(f"http://127.0.0.1:{sockets[0].getsockname()[1]}", flush=True)


def serve(app) -> None:
    # With an explicit protocol, because asyncio disables Nagle's algorithm only for sockets that have one.
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    anyio.run(Server(config).serve, [listener])
