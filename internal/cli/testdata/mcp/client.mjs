// A client of MCP's TypeScript SDK. It prints as JSON what it gets at the gateway.
//
// usage: client.mjs MCP_URL ADMIN_URL legacy|2026-07-28|sdk. The last one is the SDK of before 2026-07-28.
import { setTimeout } from "node:timers/promises";

const [url, admin, mode] = process.argv.slice(2);
const got = {};

const { Client, StreamableHTTPClientTransport } = mode === "sdk"
  ? { ...await import("@modelcontextprotocol/sdk/client/index.js"),
      ...await import("@modelcontextprotocol/sdk/client/streamableHttp.js") }
  : await import("@modelcontextprotocol/client");

async function connect(capabilities = {}, options = {}) {
  if (mode !== "sdk") options.versionNegotiation = { mode: mode === "legacy" ? "legacy" : { pin: mode } };
  const client = new Client({ name: "test", version: "1" }, { capabilities, ...options });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return client;
}

async function callTool(client, params, options) {
  return mode === "sdk" ? client.callTool(params, undefined, options) : client.callTool(params, options);
}

async function approve(id) {
  const response = await fetch(`${admin}/v1/approvals/${id}:approve`, { method: "POST", body: "{}",
    headers: { "Content-Type": "application/json" } });
  if (!response.ok) throw new Error(await response.text());
}

// approveNext approves the approval that comes next.
async function approveNext() {
  for (;;) {
    const { approvals } = await (await fetch(`${admin}/v1/approvals?state=pending`)).json();
    if (approvals?.length) {
      await approve(approvals[0].id);
      return approvals[0].id;
    }
    await setTimeout(50);
  }
}

async function calls(client) {
  got.version = client.getNegotiatedProtocolVersion?.() ?? client.transport.protocolVersion;
  got.tools = (await client.listTools()).tools.map((tool) => tool.name).sort();
  got.echo = (await callTool(client, { name: "echo", arguments: { text: "hi" } })).structuredContent;
  try {
    await callTool(client, { name: "no__such", arguments: {} });
  } catch (e) {
    got.refused = [e.code, e.data.reason];
  }
  got.failed = (await callTool(client, { name: "fail", arguments: {} })).isError;
  const wrong = await callTool(client, { name: "wrong", arguments: {} }); // the SDK throws if it is no error
  got.wrong = [wrong.isError, ...wrong.content.map(({ type }) => type)];
  got.progress = [];
  const onprogress = ({ progress, total, message }) => got.progress.push([progress, total, message]);
  got.count = (await callTool(client, { name: "count", arguments: {} }, { onprogress })).content[0].text;
}

// cancels cancels a call that runs: its backend reports the end to the test.
async function cancels(client) {
  const abort = new AbortController();
  try {
    await callTool(client, { name: "block", arguments: {} }, { signal: abort.signal, onprogress: () => abort.abort() });
  } catch (e) {
    got.cancelled = abort.signal.aborted;
  }
}

// elicits makes a call that needs approval, whose page this client can show.
async function elicits() {
  const client = await connect({ elicitation: { url: {} } });
  const show = async (params) => {
    got.page = [params.mode, params.url.split("#")[0]];
    await approve(params.url.split("/").at(-1));
    return { action: "accept" };
  };
  const method = mode === "sdk" ? (await import("@modelcontextprotocol/sdk/types.js")).ElicitRequestSchema :
    "elicitation/create";
  client.setRequestHandler(method, (request) => show(request.params));
  const call = () => callTool(client, { name: "ask__echo", arguments: { text: "page" } });
  try {
    got.elicited = (await call()).structuredContent;
  } catch (e) { // before 2026-07-28
    got.required = e.code;
    await show(e.data.elicitations[0]);
    got.elicited = (await call()).structuredContent;
  }
  await client.close();
}

// held makes a call that needs approval, of which this client knows nothing.
async function held(client) {
  const call = callTool(client, { name: "ask__echo", arguments: { text: "held" } });
  await approveNext();
  got.held = (await call).structuredContent;
}

// tasks makes a call whose result is a task. The SDK has no tasks of the extension yet, and throws for such a result. It
// sends requests about them, with their headers; the id of a task is that of its approval.
async function tasks() {
  const client = await connect({ extensions: { "io.modelcontextprotocol/tasks": {} } });
  try {
    await callTool(client, { name: "ask__echo", arguments: { text: "task" } });
  } catch (e) {
    if (e.data?.resultType !== "task") throw e;
  }
  const taskId = await approveNext();
  got.task = taskId.slice(0, 4);
  const any = { "~standard": { version: 1, vendor: "test", validate: (value) => ({ value }) } };
  let task;
  do {
    task = await client.request({ method: "tasks/get", params: { taskId } }, any);
  } while (task.status === "working");
  got["task status"] = task.status;
  got["task result"] = task.result?.structuredContent;
  await client.close();
}

const client = await connect();
await calls(client);
await cancels(client);
await elicits();
await held(client);
await client.close();
if (mode === "2026-07-28") await tasks();
console.log(JSON.stringify(got));
