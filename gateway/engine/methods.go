package engine

import (
	"strings"

	"github.com/capgate/capgate/internal/lib/strictproto"
	"github.com/capgate/capgate/internal/tenant"
)

// Prefix is the prefix of the paths of all OpenParallax methods.
const Prefix = "/openparallax.v1."

const (
	clients   = Prefix + "ClientService/"
	agents    = Prefix + "AgentService/"
	subagents = Prefix + "SubAgentService/"
	shields   = Prefix + "ShieldService/"
)

// Method describes a method of engines.
type Method struct {
	Scope   tenant.Scopes // required of callers
	Guarded bool          // served by the Guard
	Session uint32        // number of the request's field with the session id; 0 means none
	Opens   bool          // opens a session, if the request names none
	request *strictproto.Shape
	// Anyone is true if any engine of a fleet may respond; otherwise a call without a session requires a fleet of one
	// engine.
	Anyone  bool
	Streams bool // has the deadline of streams
	Endless bool // has only the caller's deadline
	Ends    bool // shuts the engine down; must be enabled
}

// methods is the table of known methods. The field numbers are those of ClientMessageRequest, GetHistoryRequest and
// ApprovalResponse.
var methods = map[string]*Method{
	clients + "SendMessage": {Scope: tenant.EngineChat, Guarded: true, Session: 2, Opens: true,
		request: &messageRequest, Streams: true},
	clients + "ResolveApproval": {Scope: tenant.EngineChat, Guarded: true, Session: 2, request: &approvalRequest},
	clients + "GetStatus":       {Scope: tenant.EngineChat, Anyone: true},
	clients + "ListSessions":    {Scope: tenant.EngineChat, Guarded: true},
	clients + "GetHistory":      {Scope: tenant.EngineChat, Guarded: true, Session: 1, request: &historyRequest},
	clients + "Shutdown":        {Scope: tenant.EngineAdmin, Ends: true},

	agents + "RunSession": {Scope: tenant.EngineAgent, Guarded: true, Streams: true, Endless: true},

	subagents + "RegisterSubAgent": {Scope: tenant.EngineSubAgent},
	// A tool, or its approval by a person, may take long.
	subagents + "SubAgentExecuteTool": {Scope: tenant.EngineSubAgent, Streams: true},
	subagents + "SubAgentComplete":    {Scope: tenant.EngineSubAgent},
	subagents + "SubAgentFailed":      {Scope: tenant.EngineSubAgent},
	subagents + "SubAgentPollMessage": {Scope: tenant.EngineSubAgent, Streams: true},

	shields + "Evaluate":        {Scope: tenant.EngineShield, Anyone: true},
	shields + "Health":          {Scope: tenant.EngineShield, Anyone: true},
	shields + "GetShieldStatus": {Scope: tenant.EngineShield, Anyone: true},
}

// ReadSession returns the session id of a request; nil if it has none.
func (m *Method) ReadSession(msg []byte) ([]byte, error) { return text(msg, m.request, m.Session) }

// Lookup returns the method of a path; nil if it is unknown.
func Lookup(path string) *Method {
	if !strings.HasPrefix(path, Prefix) {
		return nil
	}
	return methods[path]
}
