"""Makes requests with MCP's Python SDK, and prints their results as JSON. It answers questions of servers.

usage: features.py MCP_URL legacy|2026-07-28 REQUESTS, which is the JSON of pairs of method and params.
"""

import asyncio
import json
import sys

import mcp_types as types
from mcp import Client, MCPError

url, mode, requests = sys.argv[1:]


async def elicit(_: object, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ann", "interpretation": "snake"})


async def sample(_: object, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    return types.CreateMessageResult(role="assistant", model="m", content=types.TextContent(type="text", text="hello"))


async def roots(_: object) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///home/ann", name="ann")])


updates: asyncio.Queue = asyncio.Queue()


async def heard(message: object) -> None:
    of = getattr(message, "root", message)
    if isinstance(of, types.ResourceUpdatedNotification):
        await updates.put(str(of.params.uri))


async def next_update(uri: str) -> None:
    while await updates.get() != uri:
        pass


async def updated(client: Client, uri: str, tool: str) -> list[str]:
    """Subscribes to a resource, changes it with a tool, and returns the URI of the update."""
    if mode == "legacy":
        await client.subscribe_resource(uri)
        await next_update(uri)
        await client.call_tool(tool, {})
        await next_update(uri)
        return [uri]
    async with client.listen(resource_subscriptions=[uri]) as events:
        await client.call_tool(tool, {})
        async for event in events:
            return [str(event.uri)]
    return []


async def names(listing, items: str, name: str) -> list[str]:
    """Returns one member of each item of a list with pages."""
    found, cursor = [], None
    while True:
        page = await listing(cursor=cursor)
        found += [str(getattr(item, name)) for item in getattr(page, items)]
        if not (cursor := page.next_cursor):
            return found


async def complete(client: Client, params: dict) -> types.CompleteResult:
    ref = params["ref"]
    of = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
    context = params.get("context", {}).get("arguments")
    return await client.complete(of.model_validate(ref), params["argument"], context)


async def run(client: Client, method: str, params: dict):
    match method:
        case "tools/list":
            return await names(client.list_tools, "tools", "name")
        case "prompts/list":
            return await names(client.list_prompts, "prompts", "name")
        case "resources/list":
            return await names(client.list_resources, "resources", "uri")
        case "resources/templates/list":
            return await names(client.list_resource_templates, "resource_templates", "uri_template")
        case "tools/call":
            return await client.call_tool(params["name"], params.get("arguments"))
        case "prompts/get":
            return await client.get_prompt(params["name"], params.get("arguments"))
        case "resources/read":
            return await client.read_resource(params["uri"])
        case "completion/complete":
            return await complete(client, params)
        case "updates":
            return await updated(client, params["uri"], params["tool"])


async def main() -> None:
    results = []
    async with Client(url, mode=mode, elicitation_callback=elicit, sampling_callback=sample,
                      list_roots_callback=roots, message_handler=heard) as client:
        for method, params in json.loads(requests):
            try:
                result = await run(client, method, params)
                if not isinstance(result, list):
                    result = result.model_dump(mode="json", by_alias=True, exclude_none=True)
            except MCPError as e:
                result = {"error": e.error.message, "data": e.error.data}
            results.append(result)
    print(json.dumps(results, ensure_ascii=False, separators=(",", ":")))


asyncio.run(main())
