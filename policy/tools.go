package policy

import (
	"sync/atomic"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/toolschema"
)

// Author is what is said of a capability's tools beside rules. It is immutable.
type Author struct {
	Recommended map[string]call.Verdict // by tool, where its manifest recommends something
	Fleet       call.Verdict            // of the others, if Said
	Said        bool
	Schemas     map[string]*toolschema.Schema // by tool, where its arguments are to be checked
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
func (t *Tools) Heeds(capability string) bool {
	a := t.author(capability)
	return len(a.Recommended) > 0 || len(a.Schemas) > 0
}

// Schema implements Source.
func (t *Tools) Schema(capability, tool string) *toolschema.Schema {
	return t.author(capability).Schemas[tool]
}

var _ Source = (*Tools)(nil)
