// Package engine guards OpenParallax engines, which are open to whoever reaches them and take harm from
// callers that do not know of each other.
//
// Most calls of engines pass the relay as they are, once their caller's scope is looked at. Those in the table of
// methods that say so go to the Guard, a gRPC server inside the process, as translated calls go
// to the translator, and come back through the relay to the engine that was chosen:
//
//	SendMessage      one at a time per engine, over all replicas; the others wait in a queue (Turns). Events are read as
//	                 fast as the engine tells them; a client that is too far behind is cut off, and the engine
//	                 goes on. Nothing is ever sent twice.
//	RunSession       one agent per engine (Turns): a second is refused, or takes over.
//	ListSessions,    tell a tenant of its own sessions alone (Sessions).
//	GetHistory
//	ResolveApproval  only of approvals that were asked for in the tenant's sessions (Approvals).
//
// All that the gateway knows of OpenParallax is in this folder and those below it; cmd/capgate and gateway/chain.go
// register it:
//
//	filter   the filters that only these calls pass     probe    how engines are probed
//	turns    whose turn it is at an engine              metrics  what is counted
//	config   the fields of the configuration            rest     JSON routes
//	listing  the engines of a caller                    shield   how a Shield is asked
//
// What replicas share of engines is kept by the engine_*.go files of internal/redisstore.
//
// Messages stay bytes: fields are found by walking their tags, and what is unknown goes through untouched.
package engine
