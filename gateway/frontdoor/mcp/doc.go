// Package mcp implements the front door of the Model Context Protocol, at /mcp: the caller's capabilities as MCP
// tools, over streamable HTTP, in the revisions 2025-03-26 to 2026-07-28. The official Go SDK implements the protocol.
// This package serves its tools/list and tools/call through the gateway, which authenticates, authorizes and routes.
//
//	mcp.go       New, and the steps of a request: authenticate, read, SDK, list or call
//	read.go      checks requests before the SDK: one unambiguous JSON-RPC message; body.go reads its body
//	params.go    arguments that headers repeat
//	batch.go     batches of messages (2025-03-26)
//	names.go     the names of tools: capability__tool
//	list.go      tools/list: the caller's catalog
//	listen.go    streams that notify clients of changes of their lists; listener.go what they share
//	subscribe.go subscriptions to resources; subscriptions.go those of a stream
//	events.go    responses as events, and heartbeats of long requests
//	features.go  lists and calls of what servers offer besides tools: prompts.go, resources.go, uris.go
//	toolset.go   the tools of a toolset, at /mcp/NAME
//	search.go    tools that find and call other tools, for callers with many tools
//	call.go      tools/call: one call of a capability; result.go converts its result and the files in it
//	invoke.go    calls the capability, unary or streaming
//	direct.go    calls that bypass the SDK; write.go writes their responses; memory.go has their buffers
//	metadata.go  metadata of a request's call, from headers and _meta, which meta.go reads
//	approval.go  calls that a person has to approve; elicit.go the forms in which their callers do; task.go such calls
//	             as tasks
//	question.go  questions of MCP servers for the client; waiting.go those without an answer
//	session.go   ids of sessions: the client's declarations, sealed
//	cancel.go    requests that notifications/cancelled ends; oauth.go the metadata of issuers
//	progress.go  progress notifications of calls
//	metrics.go   durations of requests
//	errors.go    all errors, as problems and as JSON-RPC errors
//
// The SDK's server is stateless: it keeps nothing of a client after a request, so that any replica can serve any
// request.
package mcp
