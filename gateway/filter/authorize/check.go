package authorize

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/nearest"
	"github.com/capgate/capgate/internal/lib/semaphore"
	"github.com/capgate/capgate/internal/manifest"
)

const (
	// maxChecks is the maximum number of calls of one tenant that wait for a check of their messages.
	maxChecks = 256
	maxNamed  = 20 // tools that a rejection lists
	maxLooked = 50 // tools that are considered for the list
)

// newChecks limits concurrent checks of messages to half the processors, so that forwarding continues, fairly by
// tenant.
func newChecks() *semaphore.Semaphore { return semaphore.New(runtime.GOMAXPROCS(0)/2, maxChecks) }

// turn waits until a call of a tenant may be checked. done must be called after the check.
func (f *Filter) turn(ctx context.Context, tenant string) (done func(), refusal *call.Refusal) {
	done, err := f.checks.Acquire(ctx, tenant)
	switch {
	case errors.Is(err, semaphore.ErrFull):
		return nil, rejectedChecking
	case err != nil:
		return nil, rejectedDeciding // not sent, because the call has ended
	}
	return done, nil
}

// ToolNames returns the names of the known tools of a capability, from memory.
type ToolNames func(capability string) []string

// unknown returns the refusal of a call of a tool that its capability does not have; nil means the tool exists, or the
// tools are not known.
func (f *Filter) unknown(ctx context.Context, c *call.Call) *call.Refusal {
	if f.cfg.Tools == nil || c.Method != call.Invoke && c.Method != call.StreamInvoke || manifest.IsFeature(c.Tool) {
		return nil
	}
	all := f.cfg.Tools(c.Capability)
	if len(all) == 0 || slices.Contains(all, c.Tool) {
		return nil
	}
	near, refusal := f.near(ctx, c, all)
	if refusal != nil {
		return refusal
	}
	var callable []string
	if near != "" && f.callable(ctx, c, near) {
		callable = append(callable, near)
	}
	for _, name := range all[:min(len(all), maxLooked)] {
		if !slices.Contains(callable, name) && f.callable(ctx, c, name) {
			callable = append(callable, name)
		}
	}
	return toolUnknown(c, callable)
}

// near returns the tool whose name is closest to an unknown one; empty means none is close. Comparing many names takes
// processor time, so it counts as a check.
func (f *Filter) near(ctx context.Context, c *call.Call, all []string) (name string, refusal *call.Refusal) {
	done, refusal := f.turn(ctx, c.Tenant)
	if refusal != nil {
		return "", refusal
	}
	defer done()
	return nearest.To(c.Tool, all), nil
}

// callable reports whether the caller may call another tool of the capability, perhaps after an approval.
func (f *Filter) callable(ctx context.Context, c *call.Call, tool string) bool {
	other := *c
	other.Tool = tool
	decision, known := f.cfg.Decider.DecideAt(&other, time.Time{})
	if !known {
		var refusal *call.Refusal
		if decision, refusal = f.cfg.Decider.Fetch(ctx, &other); refusal != nil {
			return false
		}
	}
	return decision.Verdict != call.Block
}

// CheckArguments checks the arguments of a tool. It returns nil if no error is known.
type CheckArguments func(ctx context.Context, tool string, args []byte) error

// ownCheck returns the check of arguments by the fleet's protocol, if a person or a Shield sees the call before a
// backend does; nil means none. The backend makes the same check.
func (f *Filter) ownCheck(ctx context.Context, m *request) CheckArguments {
	if f.cfg.Arguments == nil || !m.brought.Read || m.decision.Verdict != call.Ask && !m.shielded {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	return f.cfg.Arguments(ctx, m.call.Capability)
}

// check checks a call's arguments and credentials.
func (f *Filter) check(ctx context.Context, m *request) *call.Refusal {
	invokes := m.call.Method == call.Invoke || m.call.Method == call.StreamInvoke
	switch {
	case !invokes:
		return nil
	}
	own := f.ownCheck(ctx, m)
	switch {
	case !m.checked && m.credentials == nil && !m.unnamed && own == nil:
		return nil
	case !m.brought.Read:
		return rejectedUnread
	case m.checked && m.schema == nil:
		if unknown := f.unknown(ctx, &m.call); unknown != nil {
			return unknown
		}
		return schemaUnknown(&m.call)
	}
	done, refusal := f.turn(ctx, m.call.Tenant)
	if refusal != nil {
		return refusal
	}
	defer done()
	if m.unnamed {
		if m.named, refusal = filter.NamedArtifacts(&m.brought, &m.call); refusal != nil {
			return refusal
		}
	}
	if m.checked {
		if err := m.schema.Check(ctx, m.brought.Args); err != nil {
			return filter.InvalidArguments(&m.call, err)
		}
	}
	if own != nil {
		if err := own(ctx, m.call.Tool, m.brought.Args); err != nil {
			return filter.InvalidArguments(&m.call, err)
		}
	}
	if err := m.credentials.Check(m.brought.Config); err != nil {
		return invalidConfig(&m.call, err)
	}
	return nil
}

var rejectedChecking = &call.Refusal{Kind: call.ResourceExhausted, Reason: "TOO_MANY_CHECKS", RetryAfter: time.Second,
	Message: "too many calls of this tenant are waiting for a check of their arguments"}
