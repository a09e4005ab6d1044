"""A server of MCP's Python SDK, of the revisions from 2025-03-26 on. It prints its port."""

import socket
from typing import Annotated

import anyio
import uvicorn
from mcp.server.mcpserver import Context, Elicit, Image, MCPServer, Resolve, Sample
from mcp_types import CreateMessageResult, SamplingMessage, TextContent
from pydantic import BaseModel

server = MCPServer("python")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("no such city")


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Tells of its progress."""
    for i in range(1, to + 1):
        await ctx.report_progress(i, to, f"step {i}")
    return "done"


@server.tool()
def picture() -> Image:
    """Has an image."""
    return Image(data=b"img", format="png")


@server.tool()
async def block(ctx: Context) -> str:
    """Waits until it is cancelled, and prints that."""
    print("BEGAN", flush=True)
    try:
        await anyio.sleep_forever()
    finally:
        print("CANCELLED", flush=True)


class Name(BaseModel):
    name: str


def ask_name() -> Elicit[Name]:
    return Elicit("What is your name?", Name)


@server.tool()
def greet(name: Annotated[Name, Resolve(ask_name)]) -> str:
    """Asks for a name."""
    return f"Hello, {name.name}!"


def ask_model() -> Sample:
    message = SamplingMessage(role="user", content=TextContent(type="text", text="Tell a joke."))
    return Sample([message], max_tokens=100)


@server.tool()
def tell(answer: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    """Asks the client's model."""
    return f"The model says {answer.content.text}."


@server.tool()
async def touch(ctx: Context) -> str:
    """Changes a resource."""
    await ctx.notify_resource_updated("python://greeting")
    return "done"


@server.resource("python://greeting")
def greeting() -> str:
    return "a text of Python"


@server.resource("python://picture", mime_type="image/png")
def image() -> bytes:
    return b"img"


@server.resource("python://people/{name}")
def person(name: str) -> str:
    return f"{name} of Python"


@server.prompt()
def review(code: str) -> str:
    """Reviews a program."""
    return f"Review of Python: {code}"


listener = socket.create_server(("127.0.0.1", 0))
print(f"LISTENS ON {listener.getsockname()[1]}.", flush=True)
uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="info")).run(sockets=[listener])
