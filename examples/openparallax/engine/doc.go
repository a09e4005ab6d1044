// Package engine is a small OpenParallax engine: the services openparallax.v1.AgentService,
// ClientService, SubAgentService and ShieldService as one process serves them, with
// conversations in memory and tools that do nothing.
//
//	clients ──SendMessage──► engine ──ProcessRequest──► agent (package agent)
//	        ◄──events───────        ◄──tokens, tools───
//	                           │
//	                           └─ shield, approvals, tools, sub-agents
//
// It does what published engines do, their weak points included, so that what stands between
// an engine and its clients can be tried against them:
//
//   - whether an answer is recorded is decided by the mode of the last message that came in, of
//     whichever session;
//   - events are sent to all readers of a session one after the other, under a lock: who does
//     not read stalls the agent, and with it everybody;
//   - the end of one answer ends all streams of its session;
//   - the last agent that connects gets the messages, and nobody tells the one before. When any
//     agent's stream ends, the engine has none;
//   - whoever can connect may call Shutdown, and answer any approval, of whichever session;
//   - failures are events, with gRPC status OK.
//
// It keeps 1000 conversations of 1000 messages; the oldest goes first.
package engine
