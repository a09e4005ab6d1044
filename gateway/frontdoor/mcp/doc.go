// Package mcp is the front door of the Model Context Protocol, at /mcp: the caller's capabilities as MCP tools, over
// streamable HTTP, in the revisions 2025-03-26 to 2026-07-28. The official Go SDK implements the protocol. This
// package serves its tools/list and tools/call through the gateway, which authenticates, authorizes and routes.
//
//	mcp.go       New, and a request's way: authenticate, read, SDK, list or call
//	read.go      which requests reach the SDK: one JSON-RPC message with one reading
//	params.go    arguments that headers repeat
//	batch.go     messages that 2025-03-26 sends together
//	names.go     the names of tools: capability__tool
//	list.go      tools/list: the caller's catalog
//	listen.go    streams that tell clients when their list has changed
//	events.go    responses as events, and the heartbeats of requests that take long
//	search.go    tools that find and call others, for callers with many
//	call.go      tools/call: one call of a capability; result.go has its result, with the files in it
//	invoke.go    the call of the capability, at once or piece by piece
//	direct.go    calls that the SDK does not see; write.go writes their responses
//	metadata.go  what a request says of its call, in headers and _meta, which meta.go reads
//	approval.go  calls that a person has to approve; elicit.go the forms in which their callers do; task.go such calls
//	             as tasks
//	session.go   ids of sessions, which hold what a client has declared, and how they are sealed
//	cancel.go    requests that notifications/cancelled ends; oauth.go the metadata of issuers
//	progress.go  progress notifications of calls
//	metrics.go   how long requests take
//	errors.go    every error, as a problem and as a JSON-RPC error
//
// The SDK's server is stateless: it keeps nothing of a client after a request, so that any replica can serve any
// request.
package mcp
