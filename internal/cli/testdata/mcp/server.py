"""A server of MCP's Python SDK, of the revisions from 2025-03-26 on. It prints its port."""

import socket
import sys

import anyio
import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer

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


listener = socket.create_server(("127.0.0.1", 0))
print(f"LISTENS ON {listener.getsockname()[1]}.", flush=True)
uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="info")).run(sockets=[listener])
