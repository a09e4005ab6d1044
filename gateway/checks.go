package gateway

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/semaphore"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/toolschema"
)

const (
	// maxChecks is how many calls of one tenant wait until what they bring is looked at.
	maxChecks = 256
	// What a connection's reader looks at itself is little: a text of so many bytes is searched
	// for a name, in some 10 µs, and a shorter one is read, in at most 100.
	maxSearched = 64 << 10
	maxReadHere = 2 << 10
)

// newChecks bounds what is read of calls at once, beside the relay: to half the processors, so
// that bytes move on, and fairly by tenant.
func newChecks() *semaphore.Semaphore { return semaphore.New(runtime.GOMAXPROCS(0)/2, maxChecks) }

// turn waits until a call of a tenant may be looked at. Whoever had its turn calls done.
func (d *deliberations) turn(ctx context.Context, tenant string) (done func(), refusal *call.Refusal) {
	done, err := d.checks.Acquire(ctx, tenant)
	switch {
	case errors.Is(err, semaphore.ErrFull):
		return nil, refusedChecking
	case err != nil:
		return nil, refusedDeliberating // which nobody hears: the call has ended
	}
	return done, nil
}

// maxNamed is how many tools a refusal names.
const maxNamed = 20

// maxLooked is how many tools are looked at for them.
const maxLooked = 50

// ToolNames are those of the tools that a capability is known to have, from memory.
type ToolNames func(capability string) []string

// toolsFor are the tools that a caller may call, or may after it has asked, of the capability that it called.
func (d *deliberations) toolsFor(ctx context.Context, c *call.Call) (names []string) {
	if d.tools == nil {
		return nil
	}
	all := d.tools(c.Capability)
	for _, name := range all[:min(len(all), maxLooked)] {
		other := *c
		other.Tool = name
		decision, known := d.decider.Decide(&other)
		if !known {
			var refusal *call.Refusal
			if decision, refusal = d.decider.Fetch(ctx, &other); refusal != nil {
				continue
			}
		}
		if decision.Verdict != call.Block {
			if names = append(names, name); len(names) > maxNamed {
				break
			}
		}
	}
	return names
}

// check says what is wrong with what a call brings.
func (d *deliberations) check(ctx context.Context, m *matter) *call.Refusal {
	invokes := m.call.Method == call.Invoke || m.call.Method == call.StreamInvoke
	switch {
	case !m.checked && m.credentials == nil && !m.unnamed || !invokes:
		return nil
	case !m.brought.Read:
		return refusedUnread
	case m.checked && m.schema == nil:
		return schemaUnknown(&m.call, d.toolsFor(ctx, &m.call))
	}
	done, refusal := d.turn(ctx, m.call.Tenant)
	if refusal != nil {
		return refusal
	}
	defer done()
	if m.unnamed {
		if m.named, refusal = artifactsOf(&m.brought, &m.call); refusal != nil {
			return refusal
		}
	}
	if m.checked {
		if err := m.schema.Check(ctx, m.brought.Args); err != nil {
			return invalidArguments(&m.call, err)
		}
	}
	if err := m.credentials.Check(m.brought.Config); err != nil {
		return invalidConfig(&m.call, err)
	}
	return nil
}

// bindArtifacts finds the artifacts that a bound call names, here if that is surely done soon.
func bindArtifacts(t *filter.Call, m *filter.Peeked) (refusal *call.Refusal) {
	size := m.Size()
	switch {
	case size > maxSearched:
		t.Artifacts.Unread = true
	case !mayName(m):
	case size > maxReadHere:
		t.Artifacts.Unread = true
	default:
		t.Artifacts.IDs, refusal = artifactsOf(m, &t.Info)
	}
	return refusal
}

// mayName says whether anybody could find an artifact in what a call brings.
func mayName(m *filter.Peeked) bool {
	return dialect.MayName(m.Args) || dialect.MayName(m.Config) || len(m.Entries()) > 0
}

// artifactsOf are all that a call names, wherever.
func artifactsOf(m *filter.Peeked, c *call.Call) ([]string, *call.Refusal) {
	ids, err := dialect.NamedAll(m.Args)
	if err != nil {
		return nil, ambiguous(c, theArguments, "ARGUMENTS_INVALID", err)
	}
	for _, find := range []func() ([]string, error){
		func() ([]string, error) { return dialect.NamedAll(m.Config) },
		func() ([]string, error) { return dialect.NamedInContext(m.Entries()) },
	} {
		more, err := find()
		if err != nil {
			return nil, ambiguous(c, "config_json", "CONFIG_INVALID", err)
		}
		ids = append(ids, more...)
	}
	return ids, nil
}

var refusedChecking = &call.Refusal{Kind: call.ResourceExhausted, Reason: "TOO_MANY_CHECKS", RetryAfter: time.Second,
	Message: "too many calls of this tenant wait at once until what they bring is checked"}

// theArguments begins what is wrong with them.
const theArguments = "the arguments"

// ambiguous is the end of a call that brings JSON of which nobody knows what its backend will
// read in it. invalid is the reason where it is no JSON to anybody.
func ambiguous(c *call.Call, what, invalid string, err error) *call.Refusal {
	r := &call.Refusal{
		Kind: call.InvalidArgument, Reason: invalid, Message: what + ": " + err.Error(),
		Metadata: map[string]string{"capability": c.Capability, "tool": c.Tool},
	}
	var text *strictjson.Error
	var name *toolschema.AmbiguousNameError
	if errors.As(err, &text) && what == theArguments {
		r.Message = "the JSON of the arguments " + text.Error()
	}
	switch {
	case errors.Is(err, dialect.ErrNamed):
		return refusedArtifacts
	case errors.As(err, &text) && text.Ambiguous, errors.As(err, &name):
		r.Reason = "AMBIGUOUS_ARGUMENTS"
	case errors.As(err, &text) && text.TooMany, errors.Is(err, toolschema.ErrCostly):
		r.Reason = "ARGUMENTS_TOO_COSTLY"
	}
	return r
}
