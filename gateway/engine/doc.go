// Package engine guards OpenParallax engines. Engines accept any client that reaches them, and do not support
// independent concurrent callers.
//
// Most calls of engines are forwarded unchanged after the check of the caller's scope. The calls that the table of
// methods marks as guarded are served by the Guard, in the process, after an engine has been picked; the Guard
// continues them at that engine:
//
//	SendMessage      one at a time per engine, at all replicas together; others wait in a queue (turns). Events are
//	                 read as fast as the engine sends them; a client that is too far behind is cut off, and the engine
//	                 continues. No message is sent twice.
//	RunSession       one agent per engine (turns): a second one is rejected, or takes over.
//	ListSessions,    return only the tenant's own sessions (Sessions).
//	GetHistory
//	ResolveApproval  accepts only approvals of the tenant's sessions (Approvals), and passes on answers to questions
//	                 that the gateway has not seen. Published engines name no id: their questions are only shown
//	                 (webpage.go).
//
// All knowledge of OpenParallax is in this folder and its subfolders; internal/app, gateway/chain.go and
// gateway/upstream/protocols register it:
//
//	filter   filters only for these calls           probe    health checks
//	turns    exclusive access to an engine          metrics  counters
//	listing  the engines of a caller                rest     JSON routes
//	shield   client of OpenParallax Shield
//
// The engine_*.go files of internal/redisstore store the state that replicas share.
//
// Messages stay bytes: fields are found by walking protobuf tags, and unknown fields pass unchanged.
package engine
