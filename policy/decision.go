package policy

import (
	"slices"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/credentials"
	"github.com/capgate/capgate/internal/toolschema"
)

// Decision is the verdict on a call, with its reason.
type Decision struct {
	Verdict call.Verdict
	Level   Level // of the deciding rule or declaration
	Cached  bool  // the store was not queried for it
	// The tool has changed since its acceptance, or since the caller's toolset described it, so that allow became ask.
	Drifted bool

	Differs   bool         // the candidate rules would decide otherwise
	Candidate call.Verdict // their verdict, if Differs
}

// Source holds the declarations of authors and operators about tools. It must answer from memory.
type Source interface {
	// Tool returns the verdict on a tool without a rule, its level (Recommended, Fleet or Default), and
	// the state of the tool itself.
	Tool(capability, tool string) (verdict call.Verdict, level Level, state ToolState)
	// DependsOnTool reports whether tool and arguments of a capability's calls must be read: its tools are
	// declared differently, or approvals may be needed.
	DependsOnTool(capability string) bool
	// Schema returns the schema of a tool's arguments, if the capability's arguments are to be checked;
	// nil: then it is unknown.
	Schema(capability, tool string) (s *toolschema.Schema, checked bool)
	// Credentials returns the credentials that calls of a capability may contain; nil: any.
	Credentials(capability string) *credentials.Names
}

// ToolState is the state of a tool itself.
type ToolState uint8

// The states of tools.
const (
	Accepted ToolState = iota // it is the accepted one, or its state is unknown
	Drifted                   // it has changed since its acceptance
	// Unlisted: the tools of its capability are discovered, and it is not among them. Only a rule that
	// names it applies.
	Unlisted
)

// decide combines the rules' match with the source's declaration.
func decide(ruled matches, source Source, capability, tool string) Decision {
	verdict, level, state := source.Tool(capability, tool)
	d := ruled.decide(verdict, level, state)
	if ruled.shadow {
		if c := ruled.candidate.decide(verdict, level, state); c.Verdict != d.Verdict {
			d.Differs, d.Candidate = true, c.Verdict
		}
	}
	return d
}

// on returns the decision on a call, whose tool may have changed for its caller alone.
func (d Decision) on(c *call.Call) Decision {
	if !c.Changed {
		return d
	}
	if d.Verdict == call.Allow {
		d.Verdict, d.Drifted = call.Ask, true
	}
	if d.Differs && d.Candidate == call.Allow {
		d.Candidate = call.Ask
	}
	d.Differs = d.Differs && d.Candidate != d.Verdict
	return d
}

// scope is the scope of the deciding rule.
type scope uint8

const (
	noRule   scope = iota
	anyTool        // of the capability, or of all capabilities
	thisTool       // the rule names the tool
)

// match is the match of the rules with a call.
type match struct {
	scope   scope
	verdict call.Verdict
	level   Level
}

// decide combines a match with the declaration, which applies without a rule.
func (r match) decide(verdict call.Verdict, level Level, state ToolState) Decision {
	d := Decision{Verdict: verdict, Level: level}
	if r.scope == thisTool || r.scope == anyTool && state != Unlisted {
		d.Verdict, d.Level = r.verdict, r.level
	}
	if state == Drifted && d.Verdict == call.Allow {
		d.Verdict, d.Drifted = call.Ask, true
	}
	return d
}

// match returns the match of a rule that was found under this name.
func (l *leveled) match(f *Found) match {
	if l.Tool == Any {
		return match{anyTool, f.Verdict, l.level}
	}
	return match{thisTool, f.Verdict, l.level}
}

// matches are the matches of a call.
type matches struct {
	match
	candidate match // of the candidate rules, if shadow
	shadow    bool
	ends      int64 // nanoseconds of the decider's clock, when a matching rule ends; 0: never
}

// ended reports whether a rule of the matches has ended.
func (m *matches) ended(now int64) bool {
	return m.ends != 0 && now >= m.ends
}

// endBy records that a matching rule ends.
func (d *Decider) endBy(m *matches, end time.Time) {
	if end.IsZero() {
		return
	}
	if at := d.now() + int64(end.Sub(d.wall())); m.ends == 0 || at < m.ends {
		m.ends = at
	}
}

// over returns the rules that would apply once candidates are in effect: they replace rules of the same name.
func over(rules, candidates []Found) []Found {
	all := slices.Clone(candidates)
	for i := range rules {
		if !all[i].Present {
			all[i] = rules[i]
		}
	}
	return all
}

// firstMatch returns the first match, and its rule's end; zero: never.
func firstMatch(list []leveled, found []Found) (match, time.Time) {
	for i := range found {
		if found[i].Present {
			return list[i].match(&found[i]), found[i].Expires
		}
	}
	return match{}, time.Time{}
}
