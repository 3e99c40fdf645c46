"""How the servers of this directory are reached over HTTP when they are started with --http or --sse: on a port of 127.0.0.1
that is free, which they print once they listen."""

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
    # Named, because asyncio turns Nagle's algorithm off only for sockets that say what they are.
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    anyio.run(Server(config).serve, [listener])
