package catalog

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/capgate/capgate/internal/manifest"
)

// attempts is the number of calls of a discovery tool for one discovery.
const attempts = 2

// thread is the thread_id of every call of a discovery tool.
const thread = "tool-discovery"

// DiscoveryCall is one call of a discovery tool, with the arguments {}.
type DiscoveryCall struct{ Capability, Tool, Session, Thread string }

// Answer is the answer of a discovery tool.
type Answer struct {
	Tools   []byte // its result_json
	LeftOut string // which tools were left out before, and why, for operators; "": none
}

// CallTool calls a discovery tool. It must end with ctx. The error is shown to operators: it must be of bounded length,
// and must have no secret and nothing of a list of tools.
type CallTool func(ctx context.Context, q DiscoveryCall) (Answer, error)

// result is the result of a discovery.
type result struct {
	busy   bool          // another replica has the lease
	recent bool          // another replica had it recently
	wait   time.Duration // then, until the lease may be free
	err    error
}

// discover lists the tools of a capability, if this replica gets the lease. While the store is
// unavailable every replica does.
func (d *Discoverer) discover(ctx context.Context, id string, a *Declaration, within time.Duration) result {
	store := d.catalog.opts.Store
	var lease Lease
	unshared := store == nil
	if !unshared {
		var err error
		lease, err = store.AcquireLease(ctx, id, attempts*a.Discovery.Timeout+margin, within)
		unshared = err != nil
	}
	if !unshared && lease.ID == "" {
		return result{busy: lease.Busy, recent: !lease.Busy, wait: lease.Wait}
	}
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, attempts*a.Discovery.Timeout+margin) // the lease then ends
	defer cancel()
	found, err := d.call(ctx, id, a)
	if parent.Err() != nil && !unshared {
		// This ends the lease early. If it fails, the others wait until the lease expires.
		stopped := Change{Capability: id, Lease: lease.ID, Error: "the gateway was stopped during the discovery"}
		_ = store.Write(context.WithoutCancel(ctx), stopped)
	}
	if ctx.Err() != nil {
		return result{err: ctx.Err()}
	}
	found.lease, found.unshared = lease.ID, unshared
	switch err = d.catalog.applyDiscovery(ctx, id, a, &found, err); {
	case errors.Is(err, ErrLeaseLost):
		return result{busy: true, wait: busyRetry}
	default:
		return result{err: err}
	}
}

// discovered is the answer of a discovery tool.
type discovered struct {
	lease    string // of the discovery
	unshared bool   // there was no lease, as the store was unavailable
	text     []byte
	leftOut  string
	tools    []Tool
}

// call calls the discovery tool, and retries once.
func (d *Discoverer) call(ctx context.Context, id string, a *Declaration) (discovered, error) {
	q := DiscoveryCall{
		Capability: id, Tool: a.Manifest.DiscoveryTool, Session: "discovery-" + id + "-" + uuid(), Thread: thread,
	}
	var found discovered
	var err error
	for range attempts {
		if found, err = d.callOnce(ctx, q, a.Discovery.Timeout); err == nil || ctx.Err() != nil {
			break
		}
	}
	return found, err
}

// callOnce calls the discovery tool once.
func (d *Discoverer) callOnce(ctx context.Context, q DiscoveryCall, timeout time.Duration) (discovered, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, err := d.callTool(ctx, q)
	if err != nil {
		return discovered{}, err
	}
	tools, err := d.parse(ctx, q.Capability, answer.Tools)
	if err != nil {
		return discovered{}, fmt.Errorf("the answer of the discovery tool %s is invalid: %w", q.Tool, err)
	}
	return discovered{text: answer.Tools, leftOut: answer.LeftOut, tools: tools}, nil
}

// parsed is a discovered set that was parsed.
type parsed struct {
	sum   string // of its text; "" if there is none
	tools []Tool
}

// parse parses an answer, unless it is the one that was parsed last. The schemas of few answers are compiled at once.
func (d *Discoverer) parse(ctx context.Context, id string, text []byte) ([]Tool, error) {
	sum := sumOf(text)
	if before := d.catalog.lastParsed(id); before.sum == sum {
		return before.tools, nil
	}
	release, err := d.work.Acquire(ctx, id)
	if err != nil {
		return nil, err
	}
	defer release()
	tools, err := manifest.ParseTools(text)
	if err != nil {
		return nil, err
	}
	return toolsOf(tools), nil
}

// lastParsed returns the last discovered set of a capability.
func (c *Catalog) lastParsed(id string) parsed {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[id]; e != nil {
		return e.parsed
	}
	return parsed{}
}

// sumOf returns the sum of a discovered set.
func sumOf(text []byte) string {
	hash := sha256.Sum256(text)
	return hex.EncodeToString(hash[:])
}

// uuid returns a random UUID (RFC 9562 §5.4).
func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// applyDiscovery publishes the discovered tools to all replicas, or records why that failed. err is the error of
// the discovery itself. After an error the known tools stay.
func (c *Catalog) applyDiscovery(ctx context.Context, id string, a *Declaration, found *discovered, err error) error {
	if err == nil {
		err = c.commit(ctx, id, a, found)
	}
	if errors.Is(err, ErrLeaseLost) || ctx.Err() != nil {
		return err
	}
	before := c.lastError(id) // as the store's copy of text may be read before this function goes on
	text := ""
	if err != nil {
		text = bounded(err)
		if !found.unshared {
			if writeErr := c.opts.Store.Write(ctx, Change{Capability: id, Lease: found.lease, Error: text}); errors.Is(
				writeErr, ErrLeaseLost) {
				return writeErr
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[id]
	if e == nil {
		return err
	}
	if before != text {
		if text != "" {
			c.opts.Log.Warn("tool discovery failed; the known tools stay", "capability", id, "error", text)
		} else {
			c.opts.Log.Info("tool discovery works again", "capability", id)
		}
	}
	e.last.Error = text
	if err == nil {
		e.last.LeftOut = found.leftOut
		e.last.Succeeded, e.counts.Succeeded = time.Now(), e.counts.Succeeded+1
	} else {
		e.last.Failed, e.counts.Failed = time.Now(), e.counts.Failed+1
	}
	return err
}

// lastError returns the error of the last discovery of a capability; "": it succeeded.
func (c *Catalog) lastError(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[id]; e != nil {
		return e.last.Error
	}
	return ""
}

// errToolsRemoved rejects a discovered set while the store is unavailable.
var errToolsRemoved = errors.New(
	"the answer lacks known tools; their rules cannot be deleted while Redis is unavailable")

// commit replaces the known tools by the discovered ones.
func (c *Catalog) commit(ctx context.Context, id string, a *Declaration, found *discovered) error {
	var shared []Record
	if !found.unshared {
		var err error
		if shared, err = c.opts.Store.Read(ctx, []ReadRequest{{Capability: id}}); err != nil {
			return fmt.Errorf("read the known tools from the store: %w", err)
		}
	}
	c.mu.Lock()
	e := c.entries[id]
	if e == nil || e.declared.Manifest != a.Manifest {
		c.mu.Unlock()
		return errors.New("the manifest changed during the discovery")
	}
	if shared != nil {
		known := shared[0].Accepted
		if e.unreconciled { // the store lost its content
			known = union(known, e.accepted)
		}
		e.accepted, e.removed = known, shared[0].Removed
	}
	withRules, removed, accepted := e.withRules(found.tools), e.removedAccepted(found.tools),
		e.mergeAccepted(found.tools)
	before := e.tools
	c.mu.Unlock()

	sum := ""
	switch {
	case !found.unshared:
		sum = sumOf(found.text)
		if err := c.write(ctx, withRules, Change{
			Capability: id, Lease: found.lease, Sum: sum, Set: found.text, Tools: accepted, Removed: removed,
			LeftOut: found.leftOut,
		}); err != nil {
			return err
		}
	case len(withRules) > 0 && c.opts.Store != nil:
		return errToolsRemoved
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[id] == e && e.declared.Manifest == a.Manifest {
		e.known, e.tools, e.accepted, e.sum = true, found.tools, accepted, sum
		e.parsed = parsed{sumOf(found.text), found.tools}
		e.markRemoved(removed)
		c.publish(id)
		c.logRemoved(id, withRules)
		if added := missing(found.tools, before); len(added) > 0 {
			c.opts.Log.Info("new tools were discovered", "capability", id, "tools", added)
			c.logUnchecked(id, found.tools, added)
		}
	}
	return nil
}

// logUnchecked names what of new tools the gateway does not check.
func (c *Catalog) logUnchecked(id string, tools []Tool, added []string) {
	for i := range tools {
		if notes := tools[i].Unchecked(); len(notes) > 0 && slices.Contains(added, tools[i].Name) {
			c.opts.Log.Warn("a tool's schema cannot be checked as a whole", "capability", id, "tool", tools[i].Name,
				"unchecked", notes)
		}
	}
}
