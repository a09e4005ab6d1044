package engine

import (
	"strings"

	"github.com/capgate/capgate/internal/lib/strictproto"
	"github.com/capgate/capgate/internal/tenant"
)

// Prefix is what the paths of all methods of OpenParallax begin with.
const Prefix = "/openparallax.v1."

const (
	clients   = Prefix + "ClientService/"
	agents    = Prefix + "AgentService/"
	subagents = Prefix + "SubAgentService/"
	shields   = Prefix + "ShieldService/"
)

// Method is what the gateway knows of a method of engines.
type Method struct {
	Scope   tenant.Scopes      // that its callers need
	Guarded bool               // it goes by way of the Guard
	Session uint32             // field of its request that has the session's id; 0: none has
	request *strictproto.Shape // of that request
	Anyone  bool               // every engine of a fleet answers it alike; else a call of no session needs a fleet of one
	Streams bool               // the deadline of streams is for it
	Endless bool               // no deadline is for it but its caller's
	Ends    bool               // it ends the engine, and has to be configured
}

// methods are all there are. The field numbers are of ClientMessageRequest, GetHistoryRequest and ApprovalResponse.
var methods = map[string]*Method{
	clients + "SendMessage":     {Scope: tenant.EngineChat, Guarded: true, Session: 2, request: &messageRequest, Streams: true},
	clients + "ResolveApproval": {Scope: tenant.EngineChat, Guarded: true, Session: 2, request: &approvalRequest},
	clients + "GetStatus":       {Scope: tenant.EngineChat, Anyone: true},
	clients + "ListSessions":    {Scope: tenant.EngineChat, Guarded: true},
	clients + "GetHistory":      {Scope: tenant.EngineChat, Guarded: true, Session: 1, request: &historyRequest},
	clients + "Shutdown":        {Scope: tenant.EngineAdmin, Ends: true},

	agents + "RunSession": {Scope: tenant.EngineAgent, Guarded: true, Streams: true, Endless: true},

	subagents + "RegisterSubAgent":    {Scope: tenant.EngineSubAgent},
	subagents + "SubAgentExecuteTool": {Scope: tenant.EngineSubAgent, Streams: true}, // a tool, or the person who is asked about it, takes its time
	subagents + "SubAgentComplete":    {Scope: tenant.EngineSubAgent},
	subagents + "SubAgentFailed":      {Scope: tenant.EngineSubAgent},
	subagents + "SubAgentPollMessage": {Scope: tenant.EngineSubAgent, Streams: true},

	shields + "Evaluate":        {Scope: tenant.EngineShield, Anyone: true},
	shields + "Health":          {Scope: tenant.EngineShield, Anyone: true},
	shields + "GetShieldStatus": {Scope: tenant.EngineShield, Anyone: true},
}

// ReadSession reads the id of the session that a request names; nil where it names none.
func (m *Method) ReadSession(msg []byte) ([]byte, error) { return text(msg, m.request, m.Session) }

// Lookup finds a method by its path; nil: there is none.
func Lookup(path string) *Method {
	if !strings.HasPrefix(path, Prefix) {
		return nil
	}
	return methods[path]
}
