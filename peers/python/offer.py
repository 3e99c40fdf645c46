"""Components of the servers for HTTP clients."""

import socket
from typing import Annotated, Any

import anyio
import uvicorn
from pydantic import Field


class Shared:
    """State that all sessions of a server share."""

    def __init__(self) -> None:
        self.grown = 0
        self.ended = 0


def offer(server: Any, tool_error: type[Exception], context: type, log: Any, changed: Any) -> None:
    shared = Shared()

    # The SDK finds the context parameter of a function by its type annotation.
    def tool(run: Any) -> Any:
        run.__annotations__ = {key: context if value is Any else value for key, value in run.__annotations__.items()}
        return server.tool(structured_output=False)(run)

    @tool
    def add(a: int, b: int) -> str:
        return str(a + b)

    @tool
    def fail() -> str:
        raise tool_error("it failed, as asked")

    @tool
    async def count(n: int, context: Any) -> str:
        for step in range(1, n + 1):
            await context.report_progress(step, n)
        return f"counted to {n}"

    @tool
    async def wait(context: Any) -> str:
        await context.report_progress(1)
        try:
            await anyio.sleep_forever()
        finally:
            shared.ended += 1

    @tool
    def ended() -> str:
        return str(shared.ended)

    @server.tool(name="log", structured_output=False)
    async def log_text(text: str, level: str, context: context) -> str:
        await log(context, level, text)
        return "logged"

    @tool
    async def grow(context: Any) -> str:
        shared.grown += 1
        name = f"grown-{shared.grown}"
        server.add_tool(lambda: name, name=name, description="Was added by grow", structured_output=False)
        await changed(context)
        return name

    @server.resource("memo://hello", mime_type="text/plain")
    def hello() -> str:
        return "Hello from a peer."

    @server.prompt()
    def review(
        code: Annotated[str, Field(description="what to review")],
        style: Annotated[str, Field(description="how to write")] = "brief",
    ) -> str:
        return f"Write a {style} review of this code:\n{code}"


class Events:
    """Stores sent events for resumption. Each server combines it with the event store class of its SDK."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self.events.append((stream_id, message))
        return str(len(self.events) - 1)

    async def replay_events_after(self, last_event_id: str, send: Any, event: Any) -> str:
        stream_id, _ = self.events[int(last_event_id)]
        for number, (stream, message) in list(enumerate(self.events))[int(last_event_id) + 1 :]:
            if stream == stream_id and message is not None:
                await send(event(message, str(number)))
        return stream_id


def serve(app: Any) -> None:
    """Listens on a free port, and prints the URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
