"""A server of FastMCP, as in the Python SDK before 2.0: revisions with sessions, and questions on the stream of a
call, or of the session.

It prints its port.
"""

import socket

import uvicorn
from mcp.server.fastmcp import Context, FastMCP
from mcp.types import SamplingMessage, TextContent
from pydantic import BaseModel

server = FastMCP("fastmcp")


class Name(BaseModel):
    name: str


@server.tool()
async def greet(ctx: Context) -> str:
    """Asks for a name."""
    answer = await ctx.elicit("What is your name?", Name)
    return f"Hello, {answer.data.name}!" if answer.action == "accept" else answer.action


@server.tool()
async def tell(ctx: Context) -> str:
    """Asks the client's model."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text="Tell a joke."))
    answer = await ctx.session.create_message([message], max_tokens=100, related_request_id=ctx.request_id)
    return f"The model says {answer.content.text}."


@server.tool()
async def tell_aside(ctx: Context) -> str:
    """Asks the client's model on the stream of the session."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text="Tell a joke."))
    answer = await ctx.session.create_message([message], max_tokens=100)
    return f"The model says {answer.content.text} aside."


low = server._mcp_server
subscribers = set()
capabilities = low.get_capabilities


def with_subscriptions(*args: object) -> object:
    declared = capabilities(*args)
    declared.resources.subscribe = True
    return declared


low.get_capabilities = with_subscriptions


@low.subscribe_resource()
async def subscribe(uri: object) -> None:
    subscribers.add(low.request_context.session)


@low.unsubscribe_resource()
async def unsubscribe(uri: object) -> None:
    subscribers.discard(low.request_context.session)


@server.tool()
async def touch() -> str:
    """Changes a resource."""
    for session in list(subscribers):
        await session.send_resource_updated("fast://greeting")
    return "done"


@server.resource("fast://greeting")
def greeting() -> str:
    return "a text of FastMCP"


@server.resource("fast://picture", mime_type="image/png")
def picture() -> bytes:
    return b"img"


@server.resource("fast://people/{name}")
def person(name: str) -> str:
    return f"{name} of FastMCP"


@server.prompt()
def review(code: str) -> str:
    """Reviews a program."""
    return f"Review of FastMCP: {code}"


listener = socket.create_server(("127.0.0.1", 0))
print(f"LISTENS ON {listener.getsockname()[1]}.", flush=True)
uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="info")).run(sockets=[listener])
