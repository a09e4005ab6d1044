// Package mcp lets MCP servers be the backends of a fleet: it stands for each of them as a capability in the process.
//
//	relay ─► Servers.Serve ─► server ─► session (of the Go SDK) ─► transport ─► MCP server over streamable HTTP
//
// The SDK speaks the protocol in both of its eras; transport decides which bytes it sees. A call of a tool is one
// tools/call. It is repeated only where the server provably did not get it, or has answered that it does not know the
// session. The package decides nothing about calls: they have passed the filters when they come here.
package mcp
