// Package engine is a small OpenParallax engine: the services openparallax.v1.AgentService,
// ClientService, SubAgentService and ShieldService as one process serves them, with
// conversations in memory or on disk, and tools that do nothing.
//
//	clients ──SendMessage──► engine ──ProcessRequest──► agent (package agent)
//	        ◄──events───────        ◄──tokens, tools───
//	                           │
//	                           └─ shield, approvals, tools, sub-agents
//
// It behaves like published engines, including their weaknesses, so that software between engines and clients can
// be tested against them:
//
//   - the mode of the last message of any session decides whether an answer is recorded;
//   - events are sent to all readers of a session one after the other, under a lock: a reader
//     that does not read stalls the agent, and all other readers;
//   - the end of one answer ends all streams of its session;
//   - the last agent that connects gets the messages, and the previous one is not notified.
//     When any agent's stream ends, the engine has no agent;
//   - a question to a person is an event without type or content: only the engine's web page (Questions) has its id,
//     which ResolveApproval accepts;
//   - any client may call Shutdown, and answer any approval of any session;
//   - failures are events, with gRPC status OK.
//
// It keeps 1000 conversations of 1000 messages; the oldest is deleted first.
package engine
