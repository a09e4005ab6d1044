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

// attempts is how often a discovery tool is called for one discovery.
const attempts = 2

// thread is the thread_id of every call of a discovery tool.
const thread = "tool-discovery"

// Question is one call of a discovery tool, with the arguments {}.
type Question struct{ Capability, Tool, Session, Thread string }

// Ask calls a discovery tool, and answers with its result_json. It must end with ctx. The
// error is shown to operators: it must hold nothing that the tool has said.
type Ask func(ctx context.Context, q Question) (answer []byte, err error)

// ending is what became of a discovery.
type ending struct {
	busy bool          // another replica is at it
	late bool          // another replica was, not long ago
	wait time.Duration // then, until it is our turn perhaps
	err  error
}

// discover asks for the tools of a capability, if it is this replica's turn. While the store
// is away it is everybody's.
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
	ctx, cancel := context.WithTimeout(ctx, attempts*a.Timeout+margin) // then the turn may be another's
	defer cancel()
	found, err := d.question(ctx, id, a)
	if stopping.Err() != nil && !alone {
		// Others need not wait for the turn to end. If that fails, they do.
		_ = store.Write(context.WithoutCancel(ctx), Change{Capability: id, Turn: turn.ID, Error: "the gateway that asked was stopped"})
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

// finding is what a discovery tool has answered.
type finding struct {
	turn  string // that it was asked in
	alone bool   // the store could not be asked for a turn
	text  []byte
	tools []Tool
}

// question calls the discovery tool.
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

func (d *Discoverer) once(ctx context.Context, q Question, timeout time.Duration) (finding, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	text, err := d.ask(ctx, q)
	if err != nil {
		return finding{}, err
	}
	tools, err := manifest.ParseTools(text)
	if err != nil {
		return finding{}, fmt.Errorf("what %s answers cannot be taken: %w", q.Tool, err)
	}
	return finding{text: text, tools: toolsOf(tools)}, nil
}

// uuid is a random one (RFC 9562 §5.4).
func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// learn puts what was discovered in force, for all replicas, or says why that was not
// possible. err is why nothing was discovered. What was known before stays then.
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
			c.opts.Log.Warn("tools cannot be discovered; what is known stays", "capability", id, "error", text)
		} else {
			c.opts.Log.Info("tools are discovered again", "capability", id)
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

// errGone is why a set is not put in force while the store is away.
var errGone = errors.New("tools are gone, and the rules about them cannot be deleted while Redis is away")

// adopt makes what was discovered the set that is in force.
func (c *Catalog) adopt(ctx context.Context, id string, a *Author, found *finding) error {
	var shared []Shared
	if !found.alone {
		var err error
		if shared, err = c.opts.Store.Read(ctx, []Want{{Capability: id}}); err != nil {
			return fmt.Errorf("ask the store what was known: %w", err)
		}
	}
	c.mu.Lock()
	e := c.entries[id]
	if e == nil || e.said.Manifest != a.Manifest {
		c.mu.Unlock()
		return errors.New("the manifest has changed meanwhile")
	}
	if shared != nil {
		known := shared[0].Accepted
		if e.unsettled { // the store has lost it
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
			c.opts.Log.Info("tools were discovered", "capability", id, "tools", added)
		}
	}
	return nil
}
