// Package questions passes questions that MCP servers have for the client of a call: forms and URLs (elicitation),
// samples of the client's model, and the client's roots. The front door of MCP adds a Call, and the upstream of MCP
// finds it by the metadata of the call. An answer is data for the server that asked. It never approves a call.
//
//	calls.go     calls whose clients answer questions
//	follower.go  streams of clients that receive updates of resources
//	question.go  reads and bounds the questions of servers; answer.go the answers of clients
//	own.go       addresses of the gateway, to which no question leads
package questions
