package webhook

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/notice"
)

// NearLimit is the kind of events of quotas that are nearly used up. They have no approval.
const NearLimit approvals.Kind = "limit.near"

// maxNear bounds the events of a destination that wait until the store responds.
const maxNear = 1000

// nearEvents holds events that the store has not accepted.
type nearEvents struct {
	mu  sync.Mutex
	all []Event
}

// add adds events, and returns the number of those for which there is no room.
func (n *nearEvents) add(events ...Event) (dropped int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	room := min(len(events), maxNear-len(n.all))
	n.all = append(n.all, events[:room]...)
	return len(events) - room
}

func (n *nearEvents) take() []Event {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.all
	n.all = nil
	return all
}

// NearLimit puts an event of a quota into the outbox of each destination that gets such events of its tenant. It waits
// for the store for two seconds at most; the Deliverers repeat what has failed.
func (g *Group) NearLimit(l *notice.Limit) {
	text, err := plainjson.Marshal(l)
	if err != nil {
		return // a struct of strings and numbers
	}
	ctx, cancel := context.WithTimeout(context.Background(), ackTimeout)
	defer cancel()
	for _, d := range g.All() {
		if to := d.endpoint.Load(); to.wants(l.Tenant) && to.wantsKind(NearLimit) {
			d.putNear(ctx, []Event{{ID: "msg_" + rand.Text(), Tenant: l.Tenant, Limit: string(text), Kind: NearLimit,
				At: time.Now()}})
			signal.Wake(d.dirty.wake)
		}
	}
}

// putNear puts events of quotas into the outbox. Those that the store does not accept wait for the next call.
func (d *Deliverer) putNear(ctx context.Context, events []Event) {
	for i := range events {
		if err := d.put(ctx, events[i].Tenant, "", "", events[i:i+1]); err != nil {
			d.counters.dropped.Add(int64(d.near.add(events[i:]...)))
			return
		}
	}
}
