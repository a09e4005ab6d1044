// Makes requests with MCP's TypeScript SDK, and prints their results as JSON. It answers questions of servers.
//
// usage: features.mjs MCP_URL legacy|2026-07-28|sdk REQUESTS. The mode sdk is the SDK of before 2026-07-28. REQUESTS is
// the JSON of pairs of method and params.
const [url, mode, requests] = process.argv.slice(2);

const { Client, StreamableHTTPClientTransport } = mode === "sdk"
  ? { ...await import("@modelcontextprotocol/sdk/client/index.js"),
      ...await import("@modelcontextprotocol/sdk/client/streamableHttp.js") }
  : await import("@modelcontextprotocol/client");
const options = { capabilities: { elicitation: { form: {} }, sampling: {}, roots: {} } };
if (mode !== "sdk") options.versionNegotiation = { mode: mode === "legacy" ? "legacy" : { pin: mode } };
const client = new Client({ name: "test", version: "1" }, options);

const types = mode === "sdk" ? await import("@modelcontextprotocol/sdk/types.js") : {};
const answers = {
  "elicitation/create": [types.ElicitRequestSchema,
    { action: "accept", content: { name: "Ann", interpretation: "snake" } }],
  "sampling/createMessage": [types.CreateMessageRequestSchema,
    { role: "assistant", model: "m", content: { type: "text", text: "hello" } }],
  "roots/list": [types.ListRootsRequestSchema, { roots: [{ uri: "file:///home/ann", name: "ann" }] }],
};
for (const [method, [schema, answer]] of Object.entries(answers)) {
  client.setRequestHandler(schema ?? method, () => answer);
}
const updates = [];
let onUpdate = () => {};
client.setNotificationHandler(types.ResourceUpdatedNotificationSchema ?? "notifications/resources/updated", (n) => {
  updates.push(n.params.uri);
  onUpdate();
});
await client.connect(new StreamableHTTPClientTransport(new URL(url)));

// names returns one member of each item of a list with pages.
async function names(list, items, name) {
  const all = [];
  let cursor;
  do {
    const page = await list.call(client, cursor && { cursor });
    all.push(...page[items].map((item) => item[name]));
    cursor = page.nextCursor;
  } while (cursor);
  return all;
}

const methods = {
  "tools/list": () => names(client.listTools, "tools", "name"),
  "prompts/list": () => names(client.listPrompts, "prompts", "name"),
  "resources/list": () => names(client.listResources, "resources", "uri"),
  "resources/templates/list": () => names(client.listResourceTemplates, "resourceTemplates", "uriTemplate"),
  "tools/call": (params) => client.callTool(params),
  "prompts/get": (params) => client.getPrompt(params),
  "resources/read": (params) => client.readResource(params),
  "completion/complete": (params) => client.complete(params),
  updates: async ({ uri, tool }) => {
    const next = async () => {
      while (!updates.includes(uri)) await new Promise((resolve) => { onUpdate = resolve; });
      updates.length = 0;
    };
    if (mode === "legacy" || mode === "sdk") {
      await client.subscribeResource({ uri });
      await next();
    } else {
      await client.listen({ resourceSubscriptions: [uri] });
    }
    await client.callTool({ name: tool, arguments: {} });
    await next();
    return [uri];
  },
};
const results = [];
for (const [method, params] of JSON.parse(requests)) {
  try {
    results.push(await methods[method](params));
  } catch (e) {
    results.push({ error: e.message, data: e.data });
  }
}
console.log(JSON.stringify(results));
await client.close();
