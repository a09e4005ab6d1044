package policy

import (
	"sync/atomic"

	"github.com/capgate/capgate/internal/call"
)

// Author is what is said of a capability's tools beside rules. It is immutable.
type Author struct {
	Recommended map[string]call.Verdict // by tool, where its manifest recommends something
	Fleet       call.Verdict            // of the others, if Said
	Said        bool
}

// Tools is a Source that is replaced as a whole. The zero value says nothing of any tool.
type Tools struct {
	table atomic.Pointer[map[string]Author] // by capability
}

// Replace puts a table in force, which must not change after it.
func (t *Tools) Replace(table map[string]Author) { t.table.Store(&table) }

func (t *Tools) author(capability string) Author {
	table := t.table.Load()
	if table == nil {
		return Author{}
	}
	return (*table)[capability]
}

// Tool implements Source.
func (t *Tools) Tool(capability, tool string) (verdict call.Verdict, level Level, drifted bool) {
	a := t.author(capability)
	if v, ok := a.Recommended[tool]; ok {
		return v, Recommended, false
	}
	if a.Said {
		return a.Fleet, Fleet, false
	}
	return call.Block, Nobody, false
}

// Heeds implements Source.
func (t *Tools) Heeds(capability string) bool { return len(t.author(capability).Recommended) > 0 }

var _ Source = (*Tools)(nil)
