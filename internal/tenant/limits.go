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

// Limits bound the calls of a tenant, on all replicas together. The zero value limits nothing. Names in JSON are those
// of the configuration, whose documentation the comments of the fields are; sizes in JSON are numbers of bytes.
type Limits struct {
	Bounds
	// Bytes of all calls of the tenant, both directions together. Default unlimited.
	BytesPerSecond int64 `json:"bytes_per_second,omitempty" kind:"size"`
	// Bytes of one upload or download. Default unlimited.
	ArtifactSize int64 `json:"artifact_size,omitempty" kind:"size"`
	// Messages of one stream, in each direction. Default unlimited.
	Messages int64 `json:"messages,omitempty" min:"1" max:"1000000000"`
	// true: nothing is rejected, but calls beyond a limit are counted and logged.
	Shadow bool `json:"shadow,omitempty"`
	// Further limits for some of the calls, at most 32.
	Each []Limit `json:"each,omitempty"`
}

// Bounds bound numbers of calls; 0: unlimited.
type Bounds struct {
	// Calls per second. Default unlimited.
	CallsPerSecond int `json:"calls_per_second,omitempty" min:"1" max:"1000000000"`
	// Burst after a pause. Default the calls of one second.
	Burst int `json:"burst,omitempty" min:"1" max:"1000000000"`
	// Concurrent calls, including streams. Default unlimited.
	Concurrent int `json:"concurrent,omitempty" min:"1" max:"1000000000"`
	// Calls from midnight to midnight, UTC. Default unlimited.
	PerDay int `json:"per_day,omitempty" min:"1" max:"1000000000"`
	// Calls from the first of the month to the next, UTC. Default unlimited.
	PerMonth int `json:"per_month,omitempty" min:"1" max:"1000000000"`
}

// Limit bounds some of a tenant's calls.
type Limit struct {
	// user, agent or capability: each value has bounds of its own. Default all together.
	Per string `json:"per,omitempty"`
	// Calls of this capability. Default those of any.
	Capability string `json:"capability,omitempty" kind:"capability or *"`
	// Calls of this tool. Default those of any.
	Tool string `json:"tool,omitempty" kind:"tool"`
	Bounds
}

// Maximum values of limits.
const (
	MaxEach  = 32            // items of each
	MaxCalls = 1_000_000_000 // calls or messages
	MaxBytes = 1 << 50       // bytes
)

// Empty reports whether nothing is limited.
func (b *Bounds) Empty() bool { return *b == Bounds{} }

// Kinds returns the limits that are set.
func (l *Limits) Kinds() (all []call.Limit) {
	bounds := []*Bounds{&l.Bounds}
	for i := range l.Each {
		bounds = append(bounds, &l.Each[i].Bounds)
	}
	has := [call.NumLimits]bool{call.BytesPerSecond: l.BytesPerSecond > 0, call.ArtifactSize: l.ArtifactSize > 0,
		call.Messages: l.Messages > 0}
	for _, b := range bounds {
		for limit, on := range map[call.Limit]bool{
			call.CallsPerSecond: b.CallsPerSecond > 0, call.Concurrent: b.Concurrent > 0, call.PerDay: b.PerDay > 0,
			call.PerMonth: b.PerMonth > 0,
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

// All returns the limit of all calls, if there is one, and those of some calls.
func (l *Limits) All() []Limit {
	if l.Empty() {
		return l.Each
	}
	return append([]Limit{{Bounds: l.Bounds}}, l.Each...)
}

// Counted reports whether calls are counted: for a rate, concurrency or a quota.
func (l *Limits) Counted() bool { return !l.Empty() || len(l.Each) > 0 }

// Check returns the first problem of the limits, or nil.
func (l *Limits) Check() error {
	if err := l.inRange(); err != nil {
		return err
	}
	for _, f := range []struct {
		name  string
		value int64
		most  int64
	}{{"bytes_per_second", l.BytesPerSecond, MaxBytes}, {"artifact_size", l.ArtifactSize, MaxBytes},
		{"messages", l.Messages, MaxCalls}} {
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

// CheckNew is Check for limits that a request sets. It also rejects limits without effect. Limits in the store
// may be older than that check.
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

// meant returns an error if one of the bounds has no effect.
func (b *Bounds) meant() error {
	if b.PerMonth > 0 && b.PerMonth < b.PerDay {
		return fmt.Errorf("per_month is %d, which is less than per_day, %d: no day can have more calls than its month",
			b.PerMonth, b.PerDay)
	}
	return nil
}

func (b *Bounds) inRange() error {
	for _, f := range []struct {
		name  string
		value int
	}{{"calls_per_second", b.CallsPerSecond}, {"burst", b.Burst}, {"concurrent", b.Concurrent}, {"per_day", b.PerDay},
		{"per_month", b.PerMonth}} {
		if f.value < 0 || f.value > MaxCalls {
			return fmt.Errorf("%s must be from 1 to %d", f.name, MaxCalls)
		}
	}
	if b.Burst > 0 && b.CallsPerSecond == 0 {
		return errors.New("burst has no effect without calls_per_second")
	}
	return nil
}

// Check returns the problem of an item of Limits.Each. The items before it are valid.
func (l *Limit) Check(before []Limit) error {
	switch {
	case l.Per != "" && l.Per != "user" && l.Per != "agent" && l.Per != "capability":
		return errors.New("per must be user, agent or capability")
	case l.Per == "" && anyName(l.Capability) && anyName(l.Tool):
		return errors.New("it must name a capability or a tool, or set per; limits for all calls belong outside of " +
			"each")
	case len(l.Capability) > 63 || len(l.Tool) > 128:
		return errors.New("the name of a capability has at most 63 bytes, that of a tool 128")
	case l.Empty():
		return errors.New("it limits nothing")
	}
	for i := range before {
		if before[i].Selector() == l.Selector() {
			return fmt.Errorf("each[%d] limits the same calls", i)
		}
	}
	return l.inRange()
}

// CheckNew is Check for an item that a request sets; see Limits.CheckNew.
func (l *Limit) CheckNew(before []Limit) error { return cmp.Or(l.Check(before), l.meant()) }

// Selector returns the selection of calls of a Limit, without its bounds and in one spelling.
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

// ParseLimits parses limits from JSON without unknown fields, and checks them.
func ParseLimits(text []byte) (Limits, error) {
	var l Limits
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return Limits{}, fmt.Errorf("limits: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Limits{}, errors.New("limits: more than one JSON value")
	}
	if err := l.Check(); err != nil {
		return Limits{}, fmt.Errorf("limits: %w", err)
	}
	return l, nil
}
