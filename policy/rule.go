package policy

import (
	"time"

	"github.com/capgate/capgate/internal/call"
)

// Any stands for every capability, or every tool, in a rule.
const Any = "*"

// Subject is who calls. The zero value is everybody: its rules are the global ones.
type Subject struct {
	Tenant string
	User   string // "" where the caller did not say
	Agent  string // the same
}

// Name is what one rule is about. Two rules of a tenant differ in their names.
type Name struct {
	User, Agent      string // "" is everyone
	Capability, Tool string // or Any
}

// Rule is one rule of a tenant, or a global one.
type Rule struct {
	Tenant string // "" is global; such a rule has neither user nor agent
	Name
	Verdict call.Verdict
	By      string    // who set it, as they are known to the gateway; "" where nobody said
	At      time.Time // when, by Redis' clock
	Since   time.Time // when there first was one of this name
}

// Level is how near to the caller a rule is. The nearest that says something decides.
type Level = call.Level

// The levels, in the order in which they are looked at.
const (
	UserAgent   = call.ByUserAgent
	User        = call.ByUser
	TenantAgent = call.ByTenantAgent
	Tenant      = call.ByTenant
	Global      = call.ByGlobal
	Recommended = call.ByManifest
	Fleet       = call.ByFleet
	Nobody      = call.ByDefault
)

// maxNames is how many rules can be about one call: four at each of five levels.
const maxNames = 5 * 4

// names are the rules that may be about a call, the deciding ones first: by level, and in
// a level the more specific. The global ones are the last, from index global on.
func names(s Subject, capability, tool string) (list []leveled, global int) {
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
