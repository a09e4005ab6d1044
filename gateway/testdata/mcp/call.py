"""Calls a tool with MCP's Python SDK, and prints the text of the result.

usage: call.py MCP_URL TOOL legacy|2026-07-28
"""

import asyncio
import sys

from mcp import Client


async def main() -> None:
    url, name, mode = sys.argv[1:]
    async with Client(url, mode=mode) as client:
        print((await client.call_tool(name, {})).content[0].text)


asyncio.run(main())
