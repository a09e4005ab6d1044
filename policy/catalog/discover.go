package catalog

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/capgate/capgate/internal/manifest"
)

// attempts is the number of calls of a discovery tool for one discovery.
const attempts = 2

// thread is the thread_id of every call of a discovery tool.
const thread = "tool-discovery"

// Question is one call of a discovery tool, with the arguments {}.
type Question struct{ Capability, Tool, Session, Thread string }

// Ask calls a discovery tool, and returns its result_json. It must end with ctx. The error is shown to
// operators and must not contain anything from the tool's answer.
type Ask func(ctx context.Context, q Question) (answer []byte, err error)

// ending is the result of a discovery.
type ending struct {
	busy bool          // another replica has the lease
	late bool          // another replica had it recently
	wait time.Duration // then, until the lease may be free
	err  error
}

// discover lists the tools of a capability, if this replica gets the lease. While the store is
// unavailable every replica does.
func (d *Discoverer) discover(ctx context.Context, id string, a *Author, within time.Duration) ending {
	store := d.catalog.opts.Store
	var turn Turn
	alone := store == nil
	if !alone {
		var err error
		turn, err = store.Begin(ctx, id, attempts*a.Timeout+margin, within)
		alone = err != nil
	}
	if !alone && turn.ID == "" {
		return ending{busy: turn.Busy, late: !turn.Busy, wait: turn.Wait}
	}
	stopping := ctx
	ctx, cancel := context.WithTimeout(ctx, attempts*a.Timeout+margin) // the lease then ends
	defer cancel()
	found, err := d.question(ctx, id, a)
	if stopping.Err() != nil && !alone {
		// This ends the lease early. If it fails, the others wait until the lease expires.
		stopped := Change{Capability: id, Turn: turn.ID, Error: "the gateway was stopped during the discovery"}
		_ = store.Write(context.WithoutCancel(ctx), stopped)
	}
	if ctx.Err() != nil {
		return ending{err: ctx.Err()}
	}
	found.turn, found.alone = turn.ID, alone
	switch err = d.catalog.learn(ctx, id, a, &found, err); {
	case errors.Is(err, ErrTurnOver):
		return ending{busy: true, wait: busyWait}
	default:
		return ending{err: err}
	}
}

// finding is the answer of a discovery tool.
type finding struct {
	turn  string // of the discovery
	alone bool   // there was no lease, as the store was unavailable
	text  []byte
	tools []Tool
}

// callTool calls the discovery tool, and retries once.
func (d *Discoverer) question(ctx context.Context, id string, a *Author) (finding, error) {
	q := Question{Capability: id, Tool: a.Manifest.DiscoveryTool, Session: "discovery-" + id + "-" + uuid(), Thread: thread}
	var found finding
	var err error
	for range attempts {
		if found, err = d.once(ctx, q, a.Timeout); err == nil || ctx.Err() != nil {
			break
		}
	}
	return found, err
}

// callOnce calls the discovery tool once.
func (d *Discoverer) once(ctx context.Context, q Question, timeout time.Duration) (finding, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	text, err := d.ask(ctx, q)
	if err != nil {
		return finding{}, err
	}
	tools, err := manifest.ParseTools(text)
	if err != nil {
		return finding{}, fmt.Errorf("the answer of the discovery tool %s is invalid: %w", q.Tool, err)
	}
	return finding{text: text, tools: toolsOf(tools)}, nil
}

// uuid returns a random UUID (RFC 9562 §5.4).
func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// learn publishes the discovered tools to all replicas, or records why that failed. err is the error of
// the discovery itself. After an error the known tools stay.
func (c *Catalog) learn(ctx context.Context, id string, a *Author, found *finding, err error) error {
	if err == nil {
		err = c.adopt(ctx, id, a, found)
	}
	if errors.Is(err, ErrTurnOver) || ctx.Err() != nil {
		return err
	}
	text := ""
	if err != nil {
		text = bounded(err)
		if !found.alone {
			if told := c.opts.Store.Write(ctx, Change{Capability: id, Turn: found.turn, Error: text}); errors.Is(told, ErrTurnOver) {
				return told
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[id]
	if e == nil {
		return err
	}
	if e.last.Error != text {
		if text != "" {
			c.opts.Log.Warn("tool discovery failed; the known tools stay", "capability", id, "error", text)
		} else {
			c.opts.Log.Info("tool discovery works again", "capability", id)
		}
	}
	e.last.Error = text
	if err == nil {
		e.last.Succeeded, e.counted.Succeeded = time.Now(), e.counted.Succeeded+1
	} else {
		e.last.Failed, e.counted.Failed = time.Now(), e.counted.Failed+1
	}
	return err
}

// errGone rejects a discovered set while the store is unavailable.
var errGone = errors.New("the answer lacks known tools, whose rules cannot be deleted while Redis is unavailable")

// adopt replaces the known tools by the discovered ones.
func (c *Catalog) adopt(ctx context.Context, id string, a *Author, found *finding) error {
	var shared []Shared
	if !found.alone {
		var err error
		if shared, err = c.opts.Store.Read(ctx, []Want{{Capability: id}}); err != nil {
			return fmt.Errorf("read the known tools from the store: %w", err)
		}
	}
	c.mu.Lock()
	e := c.entries[id]
	if e == nil || e.said.Manifest != a.Manifest {
		c.mu.Unlock()
		return errors.New("the manifest changed during the discovery")
	}
	if shared != nil {
		known := shared[0].Accepted
		if e.unsettled { // the store lost its content
			known = union(known, e.accepted)
		}
		e.accepted, e.absent = known, shared[0].Absent
	}
	gone, absent, kept := e.gone(found.tools), e.without(found.tools), e.accepts(found.tools)
	before := e.tools
	c.mu.Unlock()

	sum := ""
	switch {
	case !found.alone:
		hash := sha256.Sum256(found.text)
		sum = hex.EncodeToString(hash[:])
		if err := c.write(ctx, gone, Change{Capability: id, Turn: found.turn, Sum: sum, Set: found.text, Tools: kept, Gone: absent}); err != nil {
			return err
		}
	case len(gone) > 0 && c.opts.Store != nil:
		return errGone
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[id] == e && e.said.Manifest == a.Manifest {
		e.known, e.tools, e.accepted, e.sum = true, found.tools, kept, sum
		e.leave(absent)
		c.publish(id)
		c.tell(id, gone)
		if added := missing(found.tools, before); len(added) > 0 {
			c.opts.Log.Info("new tools were discovered", "capability", id, "tools", added)
		}
	}
	return nil
}
