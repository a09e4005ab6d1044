// Calls a tool with MCP's TypeScript SDK, and prints the text of the result.
//
// usage: call.mjs MCP_URL TOOL legacy|2026-07-28|sdk. The last one is the SDK of before 2026-07-28.
const [url, name, mode] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport } = mode === "sdk"
  ? { ...await import("@modelcontextprotocol/sdk/client/index.js"),
      ...await import("@modelcontextprotocol/sdk/client/streamableHttp.js") }
  : await import("@modelcontextprotocol/client");
const options = mode === "sdk" ? {} : { versionNegotiation: { mode: mode === "legacy" ? "legacy" : { pin: mode } } };
const client = new Client({ name: "test", version: "1" }, { capabilities: {}, ...options });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const result = await client.callTool({ name, arguments: {} });
console.log(result.content[0].text);
await client.close();
