"""The steps of the HTTP clients in this directory, for both versions of the SDK. They use all components of the servers in
`http_*.py`, and print a line of JSON for each step."""

import json
import re
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

PATIENCE = 30

Step = tuple[str, Callable[[], Awaitable[Any]]]


class StepFailed(Exception):
    """A step that failed and has been reported."""


async def hold(steps: list[Step]) -> None:
    """Runs the steps in order, up to the first one that fails."""
    for step, run in steps:
        try:
            with anyio.fail_after(PATIENCE):
                value = await run()
        except Exception as error:
            tell(step=step, ok=False, error="".join(traceback.format_exception(error)))
            raise StepFailed(step) from error
        tell(step=step, ok=True, value=value)


def tell(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def run(main: Callable[..., Awaitable[None]], *args: Any) -> None:
    """Runs a client. If it fails, reports the error and exits with status 1."""
    try:
        anyio.run(main, *args)
    except BaseException as error:
        if not told(error):
            tell(step="end", ok=False, error="".join(traceback.format_exception(error)))
        sys.exit(1)


def told(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(told(inner) for inner in error.exceptions)
    return isinstance(error, StepFailed)


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():
        await anyio.sleep(0.005)


class Heard:
    """Records notifications and requests of the server."""

    def __init__(self) -> None:
        self.logs: list[dict[str, Any]] = []
        self.changes = 0
        self.questions: list[str] = []

    async def log(self, params: Any) -> None:
        self.logs.append({"level": params.level, "data": params.data})

    async def message(self, message: Any) -> None:
        # Both versions of the SDK use the same type name; the older one wraps the notification.
        message = getattr(message, "root", message)
        if type(message).__name__ == "ToolListChangedNotification":
            self.changes += 1


class Talk:
    """The steps of a client. `client` has the methods that are the same in both versions of the SDK."""

    def __init__(self, client: Any, heard: Heard, error: type[Exception]) -> None:
        self.client = client
        self.heard = heard
        self.error = error

    async def call(self, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
        return await self.client.call_tool(name, arguments or {}, **options)

    async def text(self, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> str:
        result = await self.call(name, arguments, **options)
        if is_error(result):
            raise RuntimeError(f"the tool failed: {result}")
        return result.content[0].text

    async def tools(self) -> list[str]:
        return sorted(tool.name for tool in (await self.client.list_tools()).tools)

    async def fail(self) -> dict[str, Any]:
        result = await self.call("fail")
        return {"isError": is_error(result), "text": result.content[0].text}

    async def outcome(self, happens: Awaitable[Any]) -> dict[str, Any]:
        """Returns the outcome of a call that must fail: the code of the error, or an error result."""
        try:
            return {"isError": is_error(await happens)}
        except self.error as error:
            return {"code": error.error.code}

    async def count(self, n: int) -> dict[str, Any]:
        """Calls `count` and returns the progress reports and the result."""
        progress: list[float] = []

        async def hear(step: float, total: float | None, message: str | None) -> None:
            progress.append(step)

        answer = await self.text("count", {"n": n}, progress_callback=hear)
        return {"progress": [int(step) for step in progress], "answer": answer}

    async def log(self, **options: Any) -> dict[str, Any]:
        await self.text("log", {"text": "quiet", "level": "debug"}, **options)
        answer = await self.text("log", {"text": "loud", "level": "warning"}, **options)
        await eventually(lambda: true_if(self.heard.logs))
        return {"answer": answer, "logs": self.heard.logs}

    async def cancel(self, give_up: Callable[[anyio.CancelScope], Awaitable[None]]) -> str:
        """Cancels a call after its first progress report, and waits until it has ended on the server."""
        before = await self.text("ended")
        outcome = "given up"
        begun = anyio.Event()

        async def hear(step: float, total: float | None, message: str | None) -> None:
            begun.set()

        async def wait() -> None:
            nonlocal outcome
            try:
                with scope:
                    await self.call("wait", progress_callback=hear)
                    outcome = "answered"
            except self.error:
                pass

        scope = anyio.CancelScope()
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await begun.wait()
            await give_up(scope)

        async def ended() -> bool:
            return await self.text("ended") != before

        await eventually(ended)
        return outcome

    async def several(self) -> dict[str, Any]:
        """Makes concurrent calls."""
        sums: dict[int, int] = {}
        counts: list[bool] = []

        async def add(i: int) -> None:
            sums[i] = int(float(await self.text("add", {"a": i, "b": 1})))

        async def count() -> None:
            counts.append((await self.count(20))["progress"] == list(range(1, 21)))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(count)
            for i in range(20):
                group.start_soon(add, i)
        return {"sums": [sums[i] for i in range(20)], "counts": all(counts)}

    async def grow(self) -> str:
        return await self.text("grow")

    async def change(self) -> bool:
        """Adds a tool with `grow`, waits for the notification, and checks that the tool is listed."""
        before = self.heard.changes
        grown = await self.grow()
        await eventually(lambda: true_if(self.heard.changes > before))
        return grown in await self.tools()

    def steps(self, uri: Callable[[str], Any], logging: Callable[[], Awaitable[Any]], give_up: Any) -> list[Step]:
        """The steps that every client takes, in every revision."""

        async def resources() -> list[str]:
            return sorted(str(resource.uri) for resource in (await self.client.list_resources()).resources)

        async def read() -> str:
            return (await self.client.read_resource(uri("memo://hello"))).contents[0].text

        async def prompts() -> list[str]:
            return [prompt.name for prompt in (await self.client.list_prompts()).prompts]

        async def prompt() -> str:
            return (await self.client.get_prompt("review", {"code": "1 + 1"})).messages[0].content.text

        async def questions() -> list[str]:
            return self.heard.questions

        return [
            ("tools", self.tools),
            ("call", lambda: self.text("add", {"a": 1, "b": 2})),
            ("fail", self.fail),
            ("unknown", lambda: self.outcome(self.call("no-such-tool"))),
            ("progress", lambda: self.count(5)),
            ("elicit", lambda: self.text("greet")),
            ("questions", questions),
            ("sample", lambda: self.text("think", {"question": "The capital?"})),
            ("log", logging),
            ("resources", resources),
            ("read", read),
            ("unread", lambda: self.outcome(self.client.read_resource(uri("memo://nowhere")))),
            ("prompts", prompts),
            ("prompt", prompt),
            ("cancel", lambda: self.cancel(give_up)),
            ("several", self.several),
        ]


def is_error(result: Any) -> bool:
    return bool(getattr(result, "isError", None) or getattr(result, "is_error", None))


async def true_if(condition: Any) -> bool:
    return bool(condition)


def breaking(httpx: Any, after: int) -> tuple[Any, dict[str, Any]]:
    """Returns a transport that fails once in the middle of the response stream of `count`, after this number of events."""
    state = {"armed": False, "broken": 0, "resumed": 0}

    class Broken(httpx.AsyncByteStream):
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        async def __aiter__(self) -> Any:
            seen = b""
            async for piece in self.inner:
                # Servers use either line ending.
                ends = [end.end() for end in re.finditer(rb"\r?\n\r?\n", seen + piece)]
                if len(ends) >= after:
                    yield piece[: max(ends[after - 1] - len(seen), 0)]
                    raise httpx.ReadError("the network broke")
                seen += piece
                yield piece

        async def aclose(self) -> None:
            await self.inner.aclose()

    class Breaking(httpx.AsyncHTTPTransport):
        async def handle_async_request(self, request: Any) -> Any:
            if "last-event-id" in request.headers:
                state["resumed"] += 1
            response = await super().handle_async_request(request)
            if state["armed"] and request.method == "POST" and b'"count"' in request.content:
                state["armed"] = False
                state["broken"] += 1
                response.stream = Broken(response.stream)
            return response

    return Breaking(), state
