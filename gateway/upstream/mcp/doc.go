// Package mcp makes MCP servers usable as backends of a fleet. It serves each of them as a capability in the process.
//
//	relay ─► Servers.Serve ─► server ─► session (of the Go SDK) ─► transport ─► MCP server over streamable HTTP
//
// The SDK implements the protocol, with and without sessions; transport validates the bytes that it reads. A tool call
// is one tools/call. It is repeated only if the server provably did not receive it, or responded that it does not know
// the session. A call that the server runs as a task lasts until the task has ended. Calls have passed the filters
// before they reach this package.
package mcp
