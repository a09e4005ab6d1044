package tenant

import "strings"

// Scopes are what a caller may do.
type Scopes uint16

// The scopes. Only the public port looks at them: the operators' port authenticates nobody.
const (
	Invoke  Scopes = 1 << iota // call capabilities
	Read                       // list capabilities, tools and the tenant's approvals
	Approve                    // see and answer the tenant's approvals
	Policy                     // let an answer hold always, which sets a rule
	// see the tenant and its keys; make, rotate and revoke keys that may no more than their maker
	Admin

	EngineChat     // talk to OpenParallax engines: messages, sessions, approvals, status
	EngineAgent    // be the agent of one
	EngineSubAgent // be a sub-agent
	EngineAdmin    // shut one down, where that is configured
	EngineShield   // ask a Shield
)

// AllScopes are the names that a configuration may use.
const AllScopes = "invoke, read, approve, policy, admin, engine.chat, engine.agent, engine.subagent, " +
	"engine.admin or engine.shield"

// Engines are the scopes of OpenParallax engines.
const Engines = EngineChat | EngineAgent | EngineSubAgent | EngineAdmin | EngineShield

var scopeNames = [...]string{"invoke", "read", "approve", "policy", "admin", "engine.chat", "engine.agent",
	"engine.subagent", "engine.admin", "engine.shield"}

// ParseScope reads one scope's name.
func ParseScope(name string) (Scopes, bool) {
	for i, n := range scopeNames {
		if n == name {
			return 1 << i, true
		}
	}
	return 0, false
}

// ScopesByName are all scopes.
func ScopesByName() map[string]Scopes {
	all := make(map[string]Scopes, len(scopeNames))
	for i, name := range scopeNames {
		all[name] = 1 << i
	}
	return all
}

// Any says whether the two have a scope in common.
func (s Scopes) Any(of Scopes) bool { return s&of != 0 }

// Names are the scopes' names.
func (s Scopes) Names() (names []string) {
	for i, n := range scopeNames {
		if s&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return names
}

func (s Scopes) String() string { return strings.Join(s.Names(), ",") }

// Asserts are what the holder of a key may say of itself.
type Asserts uint8

// What there is to say.
const (
	User  Asserts = 1 << iota // x-user-id: on whose behalf it calls
	Agent                     // x-agent-id: by which agent
)

var assertNames = [...]string{"user", "agent"}

// ParseAssert reads one name of what may be said.
func ParseAssert(name string) (Asserts, bool) {
	for i, n := range assertNames {
		if n == name {
			return 1 << i, true
		}
	}
	return 0, false
}

// Names are their names.
func (a Asserts) Names() (names []string) {
	for i, n := range assertNames {
		if a&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return names
}

func (a Asserts) String() string { return strings.Join(a.Names(), ",") }
