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
	// Recommended, Fleet or Nobody; and what is known of the tool itself.
	Tool(capability, tool string) (verdict call.Verdict, level Level, state ToolState)
	// Heeds says whether tool and arguments of a capability's calls have to be read: its tools
	// differ in what is said of them, or a person may have to be asked.
	Heeds(capability string) bool
	// Schema is what the arguments of a tool have to keep to, if those of the capability's calls
	// are to be checked; nil: then nobody knows.
	Schema(capability, tool string) (s *toolschema.Schema, checked bool)
	// Credentials are those that calls of a capability may bring; nil: they may bring anything.
	Credentials(capability string) *credentials.Names
}

// ToolState is what is known of a tool itself.
type ToolState uint8

// States of tools.
const (
	Accepted ToolState = iota // it is what was accepted, or nobody knows
	Drifted                   // it has changed since somebody last accepted it: nobody allowed what it is now
	Unlisted                  // the tools of its capability are discovered, and it is none of them: only a rule that names it counts
)

// decide puts together what the rules say and what the source does.
func decide(ruled rulings, source Source, capability, tool string) Decision {
	verdict, level, state := source.Tool(capability, tool)
	d := ruled.decide(verdict, level, state)
	if ruled.shadow {
		if c := ruled.candidate.decide(verdict, level, state); c.Verdict != d.Verdict {
			d.Differs, d.Candidate = true, c.Verdict
		}
	}
	return d
}

// reach is which tools the rule that decides is about.
type reach uint8

const (
	noRule   reach = iota
	anyTool        // of the capability, or of all
	thisTool       // it is named
)

// ruling is what the rules alone say of a call.
type ruling struct {
	reach   reach
	verdict call.Verdict
	level   Level
}

// decide goes on with what is said without rules.
func (r ruling) decide(verdict call.Verdict, level Level, state ToolState) Decision {
	d := Decision{Verdict: verdict, Level: level}
	if r.reach == thisTool || r.reach == anyTool && state != Unlisted {
		d.Verdict, d.Level = r.verdict, r.level
	}
	if state == Drifted && d.Verdict == call.Allow {
		d.Verdict, d.Drifted = call.Ask, true
	}
	return d
}

// rules is what a rule of that name says.
func (l *leveled) rules(verdict call.Verdict) ruling {
	if l.Tool == Any {
		return ruling{anyTool, verdict, l.level}
	}
	return ruling{thisTool, verdict, l.level}
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
			return list[i].rules(f.Verdict)
		}
	}
	return ruling{}
}
