package tenant

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/capgate/capgate/internal/call"
)

// Limits are how much the callers of a tenant may do, on all replicas together. The zero
// value limits nothing. In JSON the names are those of the configuration, and sizes are
// numbers of bytes.
type Limits struct {
	Bounds
	BytesPerSecond int64   `json:"bytes_per_second,omitempty"` // of all its calls, both ways together; 0: any
	ArtifactSize   int64   `json:"artifact_size,omitempty"`    // bytes of one upload or download; 0: any
	Messages       int64   `json:"messages,omitempty"`         // of one stream, each way; 0: any
	Shadow         bool    `json:"shadow,omitempty"`           // refuse nothing; count and log what would be
	Each           []Limit `json:"each,omitempty"`             // bounds of some of its calls, besides
}

// Bounds are how many calls there may be. 0 is: any number.
type Bounds struct {
	CallsPerSecond int `json:"calls_per_second,omitempty"`
	Burst          int `json:"burst,omitempty"`      // calls at once after a pause; 0: those of a second
	Concurrent     int `json:"concurrent,omitempty"` // calls that run at once, streams among them
	PerDay         int `json:"per_day,omitempty"`    // calls from midnight to midnight, UTC
	PerMonth       int `json:"per_month,omitempty"`  // calls from the first of the month to the next, UTC
}

// Limit bounds some of a tenant's calls.
type Limit struct {
	Per        string `json:"per,omitempty"`        // user, agent or capability: each has bounds of its own; "": all together
	Capability string `json:"capability,omitempty"` // calls of this one; "" or "*": of any
	Tool       string `json:"tool,omitempty"`       // calls of this tool; "" or "*": of any
	Bounds
}

// The most that limits may say.
const (
	MaxEach  = 32            // items of each
	MaxCalls = 1_000_000_000 // of any number of calls or messages
	MaxBytes = 1 << 50       // of any number of bytes
)

// Empty says whether nothing is limited.
func (b *Bounds) Empty() bool { return *b == Bounds{} }

// Kinds are the limits that there are.
func (l *Limits) Kinds() (all []call.Limit) {
	bounds := []*Bounds{&l.Bounds}
	for i := range l.Each {
		bounds = append(bounds, &l.Each[i].Bounds)
	}
	has := [call.NumLimits]bool{call.BytesPerSecond: l.BytesPerSecond > 0, call.ArtifactSize: l.ArtifactSize > 0, call.Messages: l.Messages > 0}
	for _, b := range bounds {
		for limit, on := range map[call.Limit]bool{
			call.CallsPerSecond: b.CallsPerSecond > 0, call.Concurrent: b.Concurrent > 0, call.PerDay: b.PerDay > 0, call.PerMonth: b.PerMonth > 0,
		} {
			has[limit] = has[limit] || on
		}
	}
	for limit, on := range has {
		if on {
			all = append(all, call.Limit(limit))
		}
	}
	return all
}

// Counted says whether calls are counted at all: by rate, at once, or by budget.
func (l *Limits) Counted() bool { return !l.Empty() || len(l.Each) > 0 }

// Check says what is wrong with limits, if anything.
func (l *Limits) Check() error {
	if err := l.inRange(); err != nil {
		return err
	}
	for _, f := range []struct {
		name  string
		value int64
		most  int64
	}{{"bytes_per_second", l.BytesPerSecond, MaxBytes}, {"artifact_size", l.ArtifactSize, MaxBytes}, {"messages", l.Messages, MaxCalls}} {
		if f.value < 0 || f.value > f.most {
			return fmt.Errorf("%s must be from 1 to %d", f.name, f.most)
		}
	}
	if len(l.Each) > MaxEach {
		return fmt.Errorf("each has more than %d items", MaxEach)
	}
	for i := range l.Each {
		if err := l.Each[i].Check(l.Each[:i]); err != nil {
			return fmt.Errorf("each[%d]: %w", i, err)
		}
	}
	return nil
}

// CheckNew is Check for limits that somebody sets now, and refuses what means nothing, too. Those in
// the store were set before, perhaps when that was not known to be wrong.
func (l *Limits) CheckNew() error {
	if err := cmp.Or(l.Check(), l.meant()); err != nil {
		return err
	}
	for i := range l.Each {
		if err := l.Each[i].meant(); err != nil {
			return fmt.Errorf("each[%d]: %w", i, err)
		}
	}
	return nil
}

// meant says whether all of the bounds can matter.
func (b *Bounds) meant() error {
	if b.PerMonth > 0 && b.PerMonth < b.PerDay {
		return fmt.Errorf("per_month is %d, which is less than per_day, %d: no day can have more calls than its month", b.PerMonth, b.PerDay)
	}
	return nil
}

func (b *Bounds) inRange() error {
	for _, f := range []struct {
		name  string
		value int
	}{{"calls_per_second", b.CallsPerSecond}, {"burst", b.Burst}, {"concurrent", b.Concurrent}, {"per_day", b.PerDay}, {"per_month", b.PerMonth}} {
		if f.value < 0 || f.value > MaxCalls {
			return fmt.Errorf("%s must be from 1 to %d", f.name, MaxCalls)
		}
	}
	if b.Burst > 0 && b.CallsPerSecond == 0 {
		return errors.New("burst means nothing without calls_per_second")
	}
	return nil
}

// Check says what is wrong with one of Limits.Each, of which those before it are right.
func (l *Limit) Check(before []Limit) error {
	switch {
	case l.Per != "" && l.Per != "user" && l.Per != "agent" && l.Per != "capability":
		return errors.New("per must be user, agent or capability")
	case l.Per == "" && anyName(l.Capability) && anyName(l.Tool):
		return errors.New("it must name a capability or a tool, or say per whom it holds; what holds for all calls stands outside of each")
	case len(l.Capability) > 63 || len(l.Tool) > 128:
		return errors.New("the name of a capability has at most 63 bytes, that of a tool 128")
	case l.Empty():
		return errors.New("it limits nothing")
	}
	for i := range before {
		if before[i].Selector() == l.Selector() {
			return fmt.Errorf("each[%d] is of the same calls", i)
		}
	}
	return l.inRange()
}

// CheckNew is Check for one that somebody sets now, as Limits.CheckNew.
func (l *Limit) CheckNew(before []Limit) error { return cmp.Or(l.Check(before), l.meant()) }

// Selector is which calls a Limit is of, without its bounds and in one spelling.
func (l *Limit) Selector() Limit {
	of := Limit{Per: l.Per, Capability: l.Capability, Tool: l.Tool}
	if anyName(of.Capability) {
		of.Capability = ""
	}
	if anyName(of.Tool) {
		of.Tool = ""
	}
	return of
}

func anyName(pattern string) bool { return pattern == "" || pattern == "*" }

// ParseLimits reads limits from JSON, which may have no other fields, and checks them.
func ParseLimits(text []byte) (Limits, error) {
	var l Limits
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return Limits{}, fmt.Errorf("limits: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Limits{}, errors.New("limits: more follows")
	}
	if err := l.Check(); err != nil {
		return Limits{}, fmt.Errorf("limits: %w", err)
	}
	return l, nil
}
