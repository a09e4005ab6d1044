package tenant

import "strings"

// Scopes are the permissions of a caller.
type Scopes uint16

// The scopes. The public port checks all but those of roles, which are for the admin API alone.
const (
	Invoke  Scopes = 1 << iota // call capabilities
	Read                       // list capabilities, tools and the tenant's approvals
	Approve                    // see and answer the tenant's approvals
	Policy                     // remember an answer, which sets a rule
	// Admin permits to see the tenant and its keys, and to create, rotate and revoke keys without further permissions.
	Admin

	EngineChat     // use OpenParallax engines: messages, sessions, approvals, status
	EngineAgent    // be the agent of an engine
	EngineSubAgent // be a sub-agent of an engine
	EngineAdmin    // shut an engine down, if that is configured
	EngineShield   // ask a Shield

	RoleViewer   // read at the admin API what concerns the tenant
	RoleOperator // no more than viewer: what operators do concerns all tenants
	RoleApprover // answer the tenant's approvals at the admin API
	RoleAdmin    // set the tenant's rules and keys at the admin API
)

// AllScopes lists the names for errors.
const AllScopes = "invoke, read, approve, policy, admin, engine.chat, engine.agent, engine.subagent, " +
	"engine.admin, engine.shield, role.viewer, role.operator, role.approver or role.admin"

// Roles are the roles for the admin API.
const Roles = RoleViewer | RoleOperator | RoleApprover | RoleAdmin

// Engines are the scopes of OpenParallax engines.
const Engines = EngineChat | EngineAgent | EngineSubAgent | EngineAdmin | EngineShield

var scopeNames = [...]string{"invoke", "read", "approve", "policy", "admin", "engine.chat", "engine.agent",
	"engine.subagent", "engine.admin", "engine.shield", "role.viewer", "role.operator", "role.approver", "role.admin"}

// ParseScope parses one scope's name.
func ParseScope(name string) (Scopes, bool) {
	for i, n := range scopeNames {
		if n == name {
			return 1 << i, true
		}
	}
	return 0, false
}

// ScopesByName returns all scopes.
func ScopesByName() map[string]Scopes {
	all := make(map[string]Scopes, len(scopeNames))
	for i, name := range scopeNames {
		all[name] = 1 << i
	}
	return all
}

// Any reports whether the two sets have a scope in common.
func (s Scopes) Any(of Scopes) bool { return s&of != 0 }

// Names returns the scopes' names.
func (s Scopes) Names() (names []string) {
	for i, n := range scopeNames {
		if s&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return names
}

func (s Scopes) String() string { return strings.Join(s.Names(), ",") }

// Asserts are the names that the holder of a key may assert.
type Asserts uint8

// The names.
const (
	User  Asserts = 1 << iota // x-user-id: the user on whose behalf it calls
	Agent                     // x-agent-id: the agent that calls
)

var assertNames = [...]string{"user", "agent"}

// ParseAssert parses one name.
func ParseAssert(name string) (Asserts, bool) {
	for i, n := range assertNames {
		if n == name {
			return 1 << i, true
		}
	}
	return 0, false
}

// Names returns the texts of the set.
func (a Asserts) Names() (names []string) {
	for i, n := range assertNames {
		if a&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return names
}

func (a Asserts) String() string { return strings.Join(a.Names(), ",") }
