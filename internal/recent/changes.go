package recent

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

const (
	// MaxChanges is the maximum number of changes that are kept.
	MaxChanges = 1000
	// maxValue bounds a text of a change, in bytes.
	maxValue = 256
	// maxTargets bounds the targets of a change.
	maxTargets = 16
)

// Change is an action of a person or a program other than a call.
type Change struct {
	ID      string    `json:"i"`
	At      time.Time `json:"t"`
	Actor   string    `json:"a"`
	What    string    `json:"w"`
	Tenant  string    `json:"o,omitempty"`
	Targets []Target  `json:"g,omitempty"`
	Replica string    `json:"r"`
}

// Target is the object of a change.
type Target struct {
	Name  string `json:"n"`
	Value string `json:"v"`
}

// MaxChangeBytes bounds a change, in bytes of JSON.
const MaxChangeBytes = 4 << 10

// JSON encodes a change, without the targets that do not fit.
func (c *Change) JSON() []byte {
	for d := *c; ; d.Targets = d.Targets[:len(d.Targets)-1] {
		text, err := json.Marshal(&d)
		if err == nil && len(text) <= MaxChangeBytes {
			return text
		}
		if len(d.Targets) == 0 {
			d.Actor, d.What, d.Tenant = cut(d.Actor), cut(d.What), cut(d.Tenant)
			text, _ = json.Marshal(&d) // texts and a time
			return text
		}
	}
}

// Bound reports whether a change that another replica has written is one, and cuts its texts.
func (c *Change) Bound() bool {
	*c = c.bounded()
	c.ID, c.Replica = short(c.ID), short(c.Replica)
	return c.ID != "" && !c.At.IsZero()
}

// bounded returns a copy of a change with bounded texts, and without targets that have no value.
func (c *Change) bounded() Change {
	d := *c
	d.Actor, d.What, d.Tenant = short(c.Actor), short(c.What), short(c.Tenant)
	d.Targets = nil
	for _, t := range c.Targets {
		if t.Value != "" && len(d.Targets) < maxTargets {
			d.Targets = append(d.Targets, Target{short(t.Name), short(t.Value)})
		}
	}
	return d
}

func short(s string) string { return untrusted.Cut(s, maxValue) }

// ChangeFilter selects changes; empty fields select all.
type ChangeFilter struct {
	Tenants []string // nil: all
	Actor   string
	What    string // may end in ".*"
}

// Matches reports whether a change is selected.
func (f *ChangeFilter) Matches(c *Change) bool {
	kind, all := strings.CutSuffix(f.What, "*")
	return among(f.Tenants, c.Tenant) && (f.Actor == "" || f.Actor == c.Actor) &&
		(f.What == "" || f.What == c.What || all && strings.HasPrefix(c.What, kind))
}
