// Package a2a is a small agent of A2A, the Agent2Agent protocol, in its gRPC binding. It counts the words of messages,
// and shows how agents are served behind the gateway, which passes their messages on unread.
//
//	agent.go    the agent: a message, a stream of a task's changes, tasks
//	cmd/agent   the program: it serves the agent, or sends a message to one
package a2a
