"""Components that the servers of this directory share: those that send no requests to the client.

The two major versions of the SDK have different server classes with the same methods to register components.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import anyio
from mcp.types import Completion, CompletionArgument, PromptReference, SamplingMessage, TextContent
from pydantic import BaseModel, Field

INSTRUCTIONS = "A peer for the tests of Turms."

STYLES = ["brief", "bold", "broad"]
NOTES = ["one", "two", "three"]
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]

Question = Annotated[str, Field(description="what to ask the model")]
Pause = Annotated[int, Field(description="milliseconds before each step", ge=0)]
LogText = Annotated[str, Field(description="what to log")]
LogLevel = Annotated[str, Field(description="how serious it is", json_schema_extra={"enum": LEVELS})]


class Sum(BaseModel):
    sum: float


class Name(BaseModel):
    name: str = Field(description="whom to greet")


@dataclass
class Counter:
    value: int = 0


def question_message(question: str) -> SamplingMessage:
    return SamplingMessage(role="user", content=TextContent(type="text", text=question))


def greeting(answer: Any) -> str:
    """Returns the result of `greet` for the outcome of its elicitation."""
    return f"Hello, {answer.data.name}!" if answer.action == "accept" else f"Nobody to greet: {answer.action}."


def thought(answer: Any) -> str:
    """Returns the result of `think` for a sampling result."""
    first = answer.content[0] if isinstance(answer.content, list) else answer.content
    return f"{answer.model}: {first.text}"


def root_list(roots: Any) -> str:
    """Returns the result of `roots`: one root per line."""
    return "\n".join(f"{root.uri} {root.name}" if root.name else str(root.uri) for root in roots)


async def work(pause: int, context: Any) -> str:
    """Runs `slow`: three steps, each with a pause and then a progress report."""
    total = 3
    for step in range(1, total + 1):
        await anyio.sleep(pause / 1000)
        await context.report_progress(step, total, f"step {step} of {total}")
    return "done"


def offer_tools(server: Any, tool_error: type[Exception]) -> None:
    @server.tool(description="Adds two numbers")
    def add(a: float, b: float) -> Sum:
        return Sum(sum=a + b)

    @server.tool(description="Says what it was told")
    def echo(text: str) -> str:
        return text

    @server.tool(description="Fails, always")
    def fail() -> str:
        raise tool_error("it failed, as asked")


def offer_resources(server: Any, counter: Counter) -> None:
    @server.resource("memo://hello", description="A text", mime_type="text/plain")
    def hello() -> str:
        return "Hello from a peer."

    @server.resource("memo://blob", description="Five bytes", mime_type="application/octet-stream")
    def blob() -> bytes:
        return bytes([0, 1, 2, 254, 255])

    @server.resource("memo://counter", name="counter", description="How often touch was called", mime_type="text/plain")
    def count() -> str:
        return str(counter.value)

    @server.resource("memo://note/{id}", description="A note", mime_type="text/plain")
    def note(id: str) -> str:
        return f"This is note {id}."


def offer_prompts(server: Any) -> None:
    @server.prompt(description="Asks for a review")
    def review(
        code: Annotated[str, Field(description="what to review")],
        style: Annotated[str, Field(description="how to write")] = "brief",
    ) -> str:
        return f"Write a {style} review of this code:\n{code}"

    @server.completion()
    async def complete(reference: Any, argument: CompletionArgument, context: Any) -> Completion:
        about_prompt = isinstance(reference, PromptReference)
        known = {(True, "style"): STYLES, (False, "id"): NOTES}.get((about_prompt, argument.name), [])
        return Completion(values=[value for value in known if value.startswith(argument.value)])
