"""A client of MCP's Python SDK. It prints as JSON what it gets at the gateway.

usage: client.py MCP_URL ADMIN_URL legacy|2026-07-28
"""

import asyncio
import json
import sys
from typing import Literal

import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client import ClientExtension, ResultClaim

url, admin, mode = sys.argv[1:]
got: dict = {}


async def approve(approval: str) -> None:
    async with httpx2.AsyncClient() as http:
        (await http.post(f"{admin}/v1/approvals/{approval}:approve", json={})).raise_for_status()


async def approve_next() -> None:
    """Approves the approval that comes next."""
    async with httpx2.AsyncClient() as http:
        while not (pending := (await http.get(f"{admin}/v1/approvals?state=pending")).json().get("approvals")):
            await asyncio.sleep(0.05)
    await approve(pending[0]["id"])


async def calls(client: Client) -> None:
    got["version"] = client.protocol_version
    got["tools"] = sorted(tool.name for tool in (await client.list_tools()).tools)
    got["echo"] = (await client.call_tool("echo", {"text": "hi"})).structured_content
    try:
        await client.call_tool("no__such", {})
    except MCPError as e:
        got["refused"] = [e.error.code, e.error.data["reason"]]
    got["failed"] = (await client.call_tool("fail", {})).is_error
    wrong = await client.call_tool("wrong", {})  # the SDK raises if it is no error
    got["wrong"] = [wrong.is_error, *(content.type for content in wrong.content)]

    progress = []

    async def told(done: float, total: float | None, message: str | None) -> None:
        progress.append([done, total, message])

    got["count"] = (await client.call_tool("count", {}, progress_callback=told)).content[0].text
    got["progress"] = progress


async def cancels(client: Client) -> None:
    """Cancels a call that runs: its backend reports the end to the test."""
    runs = asyncio.Event()

    async def told(*_: object) -> None:
        runs.set()

    call = asyncio.create_task(client.call_tool("block", {}, progress_callback=told))
    await runs.wait()
    call.cancel()
    try:
        await call
    except asyncio.CancelledError:
        got["cancelled"] = True


async def elicits() -> None:
    """Makes a call that needs approval, whose page this client can show."""
    async def show(_: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        got["page"] = [params.mode, params.url.split("#")[0]]
        await approve(params.url.rsplit("/", 1)[1])
        return types.ElicitResult(action="accept")

    async with Client(url, mode=mode, elicitation_callback=show) as client:
        try:
            result = await client.call_tool("ask__echo", {"text": "page"})
        except MCPError as e:  # before 2026-07-28
            got["required"] = e.error.code
            page = e.error.data["elicitations"][0]
            await show(None, types.ElicitRequestURLParams.model_validate(page))
            result = await client.call_tool("ask__echo", {"text": "page"})
        got["elicited"] = result.structured_content


async def held() -> None:
    """Makes a call that needs approval, of which this client knows nothing."""
    async with Client(url, mode=mode) as client:
        call = asyncio.create_task(client.call_tool("ask__echo", {"text": "held"}))
        await approve_next()
        got["held"] = (await call).structured_content


class Task(types.Result):
    result_type: Literal["task"] = "task"
    task_id: str


class TaskParams(types.RequestParams):
    task_id: str


class GetTask(types.Request[TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams
    name_param = "taskId"


class TaskState(types.Result):
    status: str
    result: types.CallToolResult | None = None


class Tasks(ClientExtension):
    """The client's half of the extension."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self):
        async def resolve(task: Task, ctx) -> types.CallToolResult:
            got["task"] = task.task_id[:4]
            await approve(task.task_id)
            while True:
                get = GetTask(params=TaskParams(task_id=task.task_id))
                state = await ctx.session.send_request(get, TaskState)
                if state.status != "working":
                    got["task status"] = state.status
                    return state.result
                await asyncio.sleep(0.05)

        return [ResultClaim(result_type="task", model=Task, resolve=resolve)]


async def tasks() -> None:
    async with Client(url, mode=mode, extensions=[Tasks()]) as client:
        got["task result"] = (await client.call_tool("ask__echo", {"text": "task"})).structured_content


async def main() -> None:
    async with Client(url, mode=mode) as client:
        await calls(client)
        await cancels(client)
    await elicits()
    await held()
    if mode != "legacy":
        await tasks()
    print(json.dumps(got))


asyncio.run(main())
