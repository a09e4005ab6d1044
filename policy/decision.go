package policy

import (
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/credentials"
	"github.com/capgate/capgate/internal/toolschema"
)

// Decision is what becomes of a call, and why.
type Decision struct {
	Verdict call.Verdict
	Level   Level // which level said so
	Cached  bool  // nothing was asked of the store for it
	Drifted bool  // the tool is not the one that its rules were made for, so allow became ask

	Differs   bool         // candidate rules would have said something else
	Candidate call.Verdict // what, if Differs
}

// Source knows of tools what their authors and operators say. It must answer from memory.
type Source interface {
	// Tool says what becomes of a tool of which no rule speaks, and which level says it:
	// Recommended, Fleet or Nobody. Drifted tells that the tool has changed since somebody
	// last accepted it.
	Tool(capability, tool string) (verdict call.Verdict, level Level, drifted bool)
	// Heeds says whether tool and arguments of a capability's calls have to be read: its tools
	// differ in what is said of them, or a person may have to be asked.
	Heeds(capability string) bool
	// Schema is what the arguments of a tool have to keep to, if those of the capability's calls
	// are to be checked; nil: then nobody knows.
	Schema(capability, tool string) (s *toolschema.Schema, checked bool)
	// Credentials are those that calls of a capability may bring; nil: they may bring anything.
	Credentials(capability string) *credentials.Names
}

// decide puts together what the rules say and what the source does.
func decide(ruled rulings, source Source, capability, tool string) Decision {
	verdict, level, drifted := source.Tool(capability, tool)
	d := ruled.decide(verdict, level, drifted)
	if ruled.shadow {
		if c := ruled.candidate.decide(verdict, level, drifted); c.Verdict != d.Verdict {
			d.Differs, d.Candidate = true, c.Verdict
		}
	}
	return d
}

// ruling is what the rules alone say of a call.
type ruling struct {
	found   bool
	verdict call.Verdict
	level   Level
}

// decide goes on with what is said without rules.
func (r ruling) decide(verdict call.Verdict, level Level, drifted bool) Decision {
	d := Decision{Verdict: verdict, Level: level}
	if r.found {
		d.Verdict, d.Level = r.verdict, r.level
	}
	if drifted && d.Verdict == call.Allow {
		d.Verdict, d.Drifted = call.Ask, true
	}
	return d
}

// rulings are what is known of a call.
type rulings struct {
	ruling
	candidate ruling // of candidate rules, if shadow
	shadow    bool
}

// rule takes the first of the rules that were found.
func rule(list []leveled, found []Found) ruling {
	for i, f := range found {
		if f.Present {
			return ruling{true, f.Verdict, list[i].level}
		}
	}
	return ruling{}
}
