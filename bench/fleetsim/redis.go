package main

import (
	"fmt"
	"time"

	"github.com/capgate/capgate/health"
)

// The times of Redis' thread, as BenchmarkHealth of internal/redisstore measures them with redis-server 7.0.
const (
	beatCost    = 57 * time.Microsecond  // of both commands
	memberCost  = 80 * time.Nanosecond   // of the roll, in a beat
	postCost    = 70 * time.Microsecond  // of one page
	voteCost    = 5 * time.Microsecond   // written
	lookCost    = 50 * time.Microsecond  // at a page's version
	entryCost   = 400 * time.Nanosecond  // of a page that is read whole
	tellCost    = 700 * time.Nanosecond  // of one notice, for one follower
	tellEntry   = 70 * time.Nanosecond   // more for each vote in it
	writeCost   = 3500 * time.Nanosecond // to one follower's socket, once in a round of the event loop
	trip        = 500 * time.Microsecond // to Redis, and from it
	backAtLeast = 20 * time.Millisecond  // until a follower has noticed a restart and is back
	backAtMost  = 220 * time.Millisecond
)

// redis does what the scripts of internal/redisstore do, in rounds as Redis' event loop:
// all that has arrived, one after the other, and then what was published and the answers.
type redis struct {
	clock   *clock
	ahead   time.Duration // of its clock
	arrived []command
	running bool
	epoch   int
	roll    map[string]rollEntry
	pages   [health.Shards]simPage
	nodes   []*node
	told    []health.Event // in this round

	commands, notices, published, delivered uint64 // counts; published and delivered in bytes
	busy                                    time.Duration
}

// command is on its way. do returns how long the work takes.
type command struct {
	do   func() time.Duration
	done func()
}

type rollEntry struct {
	at     time.Time
	digest health.Digest
}

type simPage struct {
	version uint64
	votes   map[health.Key]*health.Observation
	entries []health.Entry // of all votes, which all readers share; nil: to be made
}

func (r *redis) time() int64 { return r.clock.now.Add(r.ahead).UnixMilli() }

// command sends a command; done is called when its answer has come.
func (r *redis) command(do func() time.Duration, done func()) {
	r.commands++
	r.clock.after(trip, func() {
		r.arrived = append(r.arrived, command{do, done})
		if !r.running {
			r.running = true
			r.round()
		}
	})
}

// round is one of the event loop.
func (r *redis) round() {
	round := r.arrived
	r.arrived = nil
	if len(round) == 0 {
		r.running = false
		return
	}
	var cost time.Duration
	for _, c := range round {
		cost += c.do()
	}
	followers := time.Duration(len(r.nodes))
	told := r.told
	r.told = nil
	if len(told) > 0 {
		cost += followers * writeCost
	}
	for _, n := range told {
		cost += followers * (tellCost + time.Duration(len(n.Entries))*tellEntry)
	}
	r.busy += cost
	r.clock.after(cost, r.round)
	r.clock.after(cost+trip, func() {
		for _, node := range r.nodes {
			if len(told) > 0 && !node.deaf {
				node.hear(told...)
			}
		}
		for _, c := range round {
			c.done()
		}
	})
}

func (r *redis) beat(b health.Heartbeat, done func(health.Members)) {
	var m health.Members
	r.commands++ // the roll is read by a second one
	r.command(func() time.Duration {
		r.roll[b.Replica] = rollEntry{r.clock.now, b.Digest}
		m = health.Members{Epoch: fmt.Sprint(r.epoch), Now: r.time(), Members: make([]health.Member, 0, len(r.roll))}
		for id, e := range r.roll {
			if age := r.clock.now.Sub(e.at); age <= b.Dead {
				m.Members = append(m.Members, health.Member{Replica: id, Age: age, Digest: e.digest})
			} else {
				delete(r.roll, id)
			}
		}
		return beatCost + time.Duration(len(r.roll))*memberCost
	}, func() { done(m) })
}

// post puts reports on their pages, one page after the other.
func (r *redis) post(reports []health.Report, done func()) {
	pages := map[int][]health.Report{}
	for _, report := range reports {
		n := health.ShardOf(report.Capability)
		pages[n] = append(pages[n], report)
	}
	n := 0
	var next func()
	next = func() {
		for n < health.Shards && len(pages[n]) == 0 {
			n++
		}
		if n == health.Shards {
			done()
			return
		}
		r.command(func() time.Duration { return r.write(n, pages[n]) }, func() {
			n++
			next()
		})
	}
	next()
}

func (r *redis) write(n int, reports []health.Report) time.Duration {
	p := &r.pages[n]
	if p.votes == nil {
		p.votes = map[health.Key]*health.Observation{}
	}
	notice := health.Event{Shard: n, Previous: p.version, Version: max(p.version+1, uint64(r.time())*1000)}
	p.version, p.entries = notice.Version, nil
	size := len("page 00 1700000000000000 1700000000000000")
	for _, report := range reports {
		v := *report.Observation
		v.Written, v.Since = r.time(), r.time()-report.Age.Milliseconds()
		p.votes[report.Key] = &v
		notice.Entries = append(notice.Entries, health.Entry{Key: report.Key, Observation: &v})
		size += len(fmt.Sprintf("\n%s %s %d\n%d %d %d 0 %d %d %s %s", report.Capability, report.Addr, report.Role,
			v.Since, v.Written, v.State, v.Dialect, v.Episode, v.By, v.Reason))
	}
	r.told = append(r.told, notice)
	r.notices++
	r.published += uint64(size)
	r.delivered += uint64(size * len(r.nodes))
	return postCost + time.Duration(len(reports))*voteCost
}

// read looks at a page, and reads it with a second command if it is to be whole.
func (r *redis) read(n int, whole bool, done func(health.Shard)) {
	var got health.Shard
	r.command(func() time.Duration {
		got = health.Shard{Version: r.pages[n].version, Now: r.time()}
		return lookCost
	}, func() {
		if !whole || got.Version == 0 {
			done(got)
			return
		}
		r.command(func() time.Duration {
			p := &r.pages[n]
			if p.entries == nil {
				for k, v := range p.votes {
					p.entries = append(p.entries, health.Entry{Key: k, Observation: v})
				}
			}
			got.Version, got.Entries = p.version, p.entries
			return postCost + time.Duration(len(got.Entries))*entryCost
		}, func() { done(got) })
	})
}

// restart makes Redis empty. Followers are back after a moment, and miss what is told
// until then.
func (r *redis) restart() {
	r.epoch++
	r.roll, r.pages = map[string]rollEntry{}, [health.Shards]simPage{}
	for i, node := range r.nodes {
		node.deaf = true
		after := backAtLeast + (backAtMost-backAtLeast)*time.Duration(i)/time.Duration(len(r.nodes))
		r.clock.after(after, func() {
			node.deaf = false
			node.hear(health.Event{Subscribed: true})
		})
	}
}
