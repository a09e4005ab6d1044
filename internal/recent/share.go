package recent

import (
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/telemetry"
)

// maxOwners bounds the tenants that a Log distinguishes.
const maxOwners = 1024

// ring has the last calls of this replica, or of some of its shards. The calls of a tenant that ended well are one
// flow, and its others are another. A call takes a free slot, or one of a flow above the average: so each flow keeps at
// least an equal share of the slots while it has as many calls, however many the others have.
type ring struct {
	keep   int    // most slots
	slots  []slot // grows with the calls
	used   int    // number of slots with a call, the first ones
	seq    uint64
	unsent int
	flows  int // number of flows that have calls

	drained int // calls of the last drain
	idle    int // last drains with calls for at most half of the slots

	owners map[string]*owner
	list   []*owner // the same
	other  *owner   // of tenants beyond maxOwners
	hand   int      // where the last search for a flow above the average ended
}

// owner is one tenant's part. It fills whole cache lines.
type owner struct {
	tenant string
	flows  [2]flow
	counts Counts // since takeCounts
	_      [40]byte
}

// flow lists the slots of some calls, from the oldest to the newest.
type flow struct {
	first, last int32
	calls       int
}

// minSlots is the number of slots by which a ring grows at first.
const minSlots = 64

func newRing(keep int) *ring {
	return &ring{keep: keep, owners: map[string]*owner{}, other: newOwner("")}
}

// grow adds slots: as many as there are, up to keep.
func (r *ring) grow() {
	n := min(max(len(r.slots), minSlots), r.keep-len(r.slots))
	r.slots = slices.Grow(r.slots, n)
	memory := make([]byte, n*commonTexts)
	for ; n > 0; n-- {
		r.slots = append(r.slots, slot{entry: entry{texts: memory[:0:commonTexts]}})
		memory = memory[commonTexts:]
	}
}

func newOwner(tenant string) *owner {
	return &owner{tenant: tenant, flows: [2]flow{{none, none, 0}, {none, none, 0}}}
}

// owner returns the owner of a tenant's calls. It allocates only for a tenant that is new.
func (r *ring) owner(tenant string) *owner {
	if o := r.owners[tenant]; o != nil {
		return o
	}
	if len(r.list) >= maxOwners {
		r.forget()
	}
	if len(r.list) >= maxOwners {
		return r.other
	}
	o := newOwner(strings.Clone(cut(tenant)))
	r.owners[o.tenant] = o
	r.list = append(r.list, o)
	return o
}

// at returns the i-th owner. The owner after those in the list is other.
func (r *ring) at(i int) *owner {
	if i < len(r.list) {
		return r.list[i]
	}
	return r.other
}

// forget removes owners without calls.
func (r *ring) forget() {
	kept := r.list[:0]
	for _, o := range r.list {
		if o.flows[0].calls+o.flows[1].calls == 0 && o.counts == (Counts{}) {
			delete(r.owners, o.tenant)
			continue
		}
		kept = append(kept, o)
	}
	clear(r.list[len(kept):])
	r.list = kept
}

// add copies a call.
func (r *ring) add(o *owner, rec *telemetry.Record) { r.slot(o, rec.Code != 0).set(rec) }

// adopt takes over a call of another ring, whose slot gets the memory of a former call in exchange.
func (r *ring) adopt(s *slot) {
	at := r.slot(r.owner(string(s.tenant())), s.failed)
	at.entry, s.entry = s.entry, at.entry
}

// slot returns the slot of a new call.
func (r *ring) slot(o *owner, failed bool) *slot {
	f := &o.flows[0]
	if failed {
		f = &o.flows[1]
	}
	at := r.place(f)
	s := &r.slots[at]
	r.seq++
	s.seq, s.next, s.sent = r.seq, none, false
	r.unsent++
	if f.calls == 0 {
		f.first = at
		r.flows++
	} else {
		r.slots[f.last].next = at
	}
	f.last = at
	f.calls++
	return s
}

// place returns a slot for a call of a flow.
func (r *ring) place(of *flow) int32 {
	if r.used < r.keep {
		if r.used == len(r.slots) {
			r.grow()
		}
		r.used++
		return int32(r.used - 1)
	}
	flows := r.flows
	if of.calls == 0 {
		flows++
	}
	if of.calls*flows < r.keep {
		of = r.above(of, flows)
	}
	at := of.first
	of.first = r.slots[at].next
	if of.calls--; of.calls == 0 {
		of.first, of.last = none, none
		r.flows--
	}
	if !r.slots[at].sent {
		r.unsent--
	}
	return at
}

// above returns a flow with more than the average, while all slots are taken and of has less. There is always one.
func (r *ring) above(of *flow, flows int) *flow {
	for range len(r.list) + 1 {
		r.hand = (r.hand + 1) % (len(r.list) + 1)
		o := r.at(r.hand)
		for i := range o.flows {
			if f := &o.flows[i]; f != of && f.calls*flows > r.keep {
				return f
			}
		}
	}
	return of
}

// takeCounts takes the counts since the last time.
func (r *ring) takeCounts(f func(tenant string, c Counts)) {
	for i := range len(r.list) + 1 {
		o := r.at(i)
		if o.counts != (Counts{}) {
			f(o.tenant, o.counts)
			o.counts = Counts{}
		}
	}
}

// drain empties the ring, and appends the slots of its calls to moved. They are valid until the ring gets a call.
func (r *ring) drain(moved []*slot) []*slot {
	for i := range len(r.list) + 1 {
		for f := range r.at(i).flows {
			of := &r.at(i).flows[f]
			for at := of.first; at != none; at = r.slots[at].next {
				moved = append(moved, &r.slots[at])
			}
			*of = flow{none, none, 0}
		}
	}
	r.drained, r.used, r.flows, r.unsent = r.used, 0, 0, 0
	return moved
}

// idleDrains is the number of drains with calls for at most half of the slots after which a ring drops them.
const idleDrains = 8

// trim drops the memory of a drained ring that no longer needs half of it.
func (r *ring) trim() {
	if 2*r.drained > len(r.slots) || len(r.slots) <= minSlots {
		r.idle = 0
		return
	}
	if r.idle++; r.idle == idleDrains {
		r.slots, r.idle = nil, 0
		r.forget()
	}
}

// take copies at most maxBatch slots that are not published, in turn of each flow, and counts them as published.
func (r *ring) take(sent map[int32]uint64) (taken []slot) {
	if r.unsent == 0 {
		return nil
	}
	var next []int32 // of each flow
	for i := range len(r.list) + 1 {
		o := r.at(i)
		next = append(next, o.flows[0].first, o.flows[1].first)
	}
	for len(next) > 0 {
		rest := next[:0]
		for _, at := range next {
			for at != none && r.slots[at].sent {
				at = r.slots[at].next
			}
			if at == none {
				continue
			}
			if len(taken) == maxBatch {
				return taken
			}
			s := &r.slots[at]
			taken = append(taken, s.clone())
			sent[at] = s.seq
			s.sent = true
			r.unsent--
			rest = append(rest, s.next)
		}
		next = rest
	}
	return taken
}

// restore counts slots as not published, if they have the same calls still.
func (r *ring) restore(sent map[int32]uint64) {
	for at, seq := range sent {
		if s := &r.slots[at]; s.seq == seq {
			s.sent = false
			r.unsent++
		}
	}
}

// all returns copies of the slots that have a call.
func (r *ring) all() (all []slot) {
	for i := range len(r.list) + 1 {
		o := r.at(i)
		for _, f := range o.flows {
			for at := f.first; f.calls > 0 && at != none; at = r.slots[at].next {
				all = append(all, r.slots[at].clone())
			}
		}
	}
	return all
}
