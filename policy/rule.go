package policy

import (
	"time"

	"github.com/capgate/capgate/internal/call"
)

// Any matches every capability, or every tool, in a rule.
const Any = "*"

// Subject is the caller. The zero value is any caller: its rules are the global ones.
type Subject struct {
	Tenant string
	User   string // "": unknown
	Agent  string // "": unknown
}

// Name identifies a rule of a tenant by the calls to which it applies.
type Name struct {
	User, Agent      string // "": any
	Capability, Tool string // or Any
}

// Rule is one rule of a tenant, or a global one.
type Rule struct {
	Tenant string // "": global; such a rule has neither user nor agent
	Name
	Verdict call.Verdict
	By      string    // the operator that set it; "": unknown
	At      time.Time // time of the last change, by Redis' clock
	Since   time.Time // time of the first rule with this name
	Expires time.Time // when it ends; zero: never
}

// Level is the specificity of a rule to the caller. The most specific level with a rule decides.
type Level = call.Level

// The levels, in the order of evaluation.
const (
	UserAgent   = call.ByUserAgent
	User        = call.ByUser
	TenantAgent = call.ByTenantAgent
	Tenant      = call.ByTenant
	Global      = call.ByGlobal
	Recommended = call.ByManifest
	Fleet       = call.ByFleet
	Default     = call.ByDefault
)

// maxNames is the number of rules that can apply to one call: four at each of five levels.
const maxNames = 5 * 4

// rulesFor lists the rules that may apply to a call, in the order of precedence: by level, and within a
// level the more specific first. The global ones are the last, from index global on.
func rulesFor(s Subject, capability, tool string) (list []leveled, global int) {
	list = make([]leveled, 0, maxNames)
	add := func(level Level, user, agent string) {
		for _, what := range [...][2]string{{capability, tool}, {capability, Any}, {Any, tool}, {Any, Any}} {
			list = append(list, leveled{Name{user, agent, what[0], what[1]}, level})
		}
	}
	if s.Tenant != "" {
		if s.User != "" && s.Agent != "" {
			add(UserAgent, s.User, s.Agent)
		}
		if s.User != "" {
			add(User, s.User, "")
		}
		if s.Agent != "" {
			add(TenantAgent, "", s.Agent)
		}
		add(Tenant, "", "")
	}
	global = len(list)
	add(Global, "", "")
	return list, global
}

type leveled struct {
	Name
	level Level
}
