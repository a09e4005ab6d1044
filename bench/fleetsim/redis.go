package main

import (
	"fmt"
	"time"

	"github.com/capgate/capgate/health"
)

// Processing times of Redis' thread, measured by BenchmarkHealth of internal/redisstore with redis-server 7.0.
const (
	heartbeatCost   = 37 * time.Microsecond  // a heartbeat
	listCost        = 20 * time.Microsecond  // more if the list of members has changed
	memberCost      = 80 * time.Nanosecond   // per member of the list
	publishCost     = 70 * time.Microsecond  // a publication to one shard
	observationCost = 5 * time.Microsecond   // per observation written
	readCost        = 70 * time.Microsecond  // reading a shard in full
	versionCost     = 50 * time.Microsecond  // reading the version of a shard
	entryCost       = 400 * time.Nanosecond  // per observation of a shard that is read in full
	eventCost       = 700 * time.Nanosecond  // per event and follower
	eventEntryCost  = 70 * time.Nanosecond   // more per observation in an event
	writeCost       = 3500 * time.Nanosecond // per follower and round of the event loop, to write to its socket
	trip            = 500 * time.Microsecond // one way between a replica and Redis
	backAtLeast     = 20 * time.Millisecond  // until a follower has noticed a restart and has subscribed again
	backAtMost      = 220 * time.Millisecond
)

// The pace of notices, as in lua/include/health_notices.lua.
const (
	noticePace  = 200 * time.Microsecond // for each follower
	changePace  = 3500 * time.Nanosecond // more per change and follower
	allowance   = time.Second            // by which notices may be ahead
	mostChanges = 128                    // in a notice
	fewChanges  = 8                      // a notice of more is compact, with
	manyNodes   = 100                    // as many replicas
	compactSize = 40                     // bytes of a change in a compact notice
	othersWait  = time.Second            // more, for replicas whose changes do not wait alone
)

// redis simulates the scripts of internal/redisstore. It works in rounds, as Redis' event loop does: it runs all
// commands that have arrived, then sends published events and responses.
type redis struct {
	clock   *clock
	ahead   time.Duration // offset of its clock
	arrived []command
	running bool
	epoch   int
	members map[string]memberEntry
	roll    uint64 // changes of members
	shards  [health.Shards]simShard
	nodes   []*node
	events  []health.Event // published in this round

	commands, eventCount, published, delivered uint64 // totals; published and delivered in bytes
	busy                                       time.Duration
}

// command is a command on its way to Redis. do executes it and returns its processing time.
type command struct {
	do   func() time.Duration
	done func()
}

type memberEntry struct {
	at     time.Time
	digest health.Digest
	read   uint64 // changes in the list that it has read last
	beats  int    // heartbeats since
}

// relist is the number of heartbeats after which a replica reads an unchanged list, as in internal/redisstore.
const relist = 10

type simShard struct {
	version      uint64
	observations map[health.Key]*health.Observation
	entries      []health.Entry // all observations, shared by all readers; nil until the first reader needs them
	waiting      map[health.Key]struct{}
	paid         time.Time
}

func (r *redis) time() int64 { return r.clock.now.Add(r.ahead).UnixMilli() }

// command sends a command. done is called when its response has arrived.
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

// round runs one round of the event loop.
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
	events := r.events
	r.events = nil
	if len(events) > 0 {
		cost += followers * writeCost
	}
	for _, n := range events {
		cost += followers * (eventCost + time.Duration(len(n.Entries))*eventEntryCost)
	}
	r.busy += cost
	r.clock.after(cost, r.round)
	r.clock.after(cost+trip, func() {
		for _, node := range r.nodes {
			if len(events) > 0 && !node.unsubscribed {
				node.receive(events...)
			}
		}
		for _, c := range round {
			c.done()
		}
	})
}

func (r *redis) heartbeat(b health.Heartbeat, done func(health.Members)) {
	var m health.Members
	r.command(func() time.Duration {
		own, known := r.members[b.Replica]
		changed := !known || own.digest != b.Digest
		own.at, own.digest = r.clock.now, b.Digest
		r.members[b.Replica] = own
		m = health.Members{Epoch: fmt.Sprint(r.epoch), Now: r.time(), Members: make([]health.Member, 0, len(r.members))}
		for id, e := range r.members {
			if age := r.clock.now.Sub(e.at); age <= b.Dead {
				m.Members = append(m.Members, health.Member{Replica: id, Age: age, Digest: e.digest})
			} else {
				delete(r.members, id)
				changed = true
			}
		}
		if changed {
			r.roll++
		}
		if own.beats++; own.read == r.roll && own.beats < relist {
			for i := range m.Members {
				m.Members[i].Age = b.Dead
			}
			r.members[b.Replica] = own
			return heartbeatCost
		}
		r.commands++ // a second command reads the members
		own.read, own.beats = r.roll, 0
		r.members[b.Replica] = own
		return heartbeatCost + listCost + time.Duration(len(r.members))*memberCost
	}, func() { done(m) })
}

// publish writes reports to their shards, one shard after the other.
func (r *redis) publish(reports []health.Report, done func([]health.Waiting)) {
	shards := map[int][]health.Report{}
	for _, report := range reports {
		n := health.ShardOf(report.Capability)
		shards[n] = append(shards[n], report)
	}
	var waiting []health.Waiting
	n := 0
	var next func()
	next = func() {
		for n < health.Shards && len(shards[n]) == 0 {
			n++
		}
		if n == health.Shards {
			done(waiting)
			return
		}
		r.command(func() time.Duration {
			if wait, version := r.write(n, shards[n]); wait > 0 {
				waiting = append(waiting, health.Waiting{Shard: n, Version: version, Wait: wait})
			}
			return publishCost + time.Duration(len(shards[n]))*observationCost
		}, func() {
			n++
			next()
		})
	}
	next()
}

// write stores reports, and returns the time for which their notice waits.
func (r *redis) write(n int, reports []health.Report) (time.Duration, uint64) {
	p := &r.shards[n]
	if p.observations == nil {
		p.observations, p.waiting = map[health.Key]*health.Observation{}, map[health.Key]struct{}{}
	}
	waited, version := len(p.waiting) > 0, p.version
	p.entries = nil
	for _, report := range reports {
		v := *report.Observation
		v.Written, v.Since = r.time(), r.time()-report.Age.Milliseconds()
		p.observations[report.Key] = &v
		p.waiting[report.Key] = struct{}{}
	}
	wait := r.notify(n)
	if wait > 0 && waited && p.version == version {
		wait += othersWait
	}
	return wait, p.version
}

// notify publishes the changes of a shard that wait, and returns the time for which the rest waits.
func (r *redis) notify(n int) time.Duration {
	p := &r.shards[n]
	now := r.clock.now
	if p.paid.Before(now) {
		p.paid = now
	}
	for len(p.waiting) > 0 && (p.version == 0 || !p.paid.After(now.Add(allowance))) {
		event := health.Event{Shard: n, Previous: p.version, Version: max(p.version+1, uint64(r.time())*1000)}
		size := len("page 00 1700000000000000 1700000000000000")
		for k := range p.waiting {
			if len(event.Entries) == mostChanges {
				break
			}
			delete(p.waiting, k)
			v := p.observations[k]
			event.Entries = append(event.Entries, health.Entry{Key: k, Observation: v})
			size += len(fmt.Sprintf("\n%s %s %d\n%d %d %d 0 %d %d %s %s", k.Capability, k.Addr, k.Role,
				v.Since, v.Written, v.State, v.Dialect, v.Episode, v.By, v.Reason))
		}
		if len(event.Entries) > fewChanges && len(r.nodes) >= manyNodes {
			size = len("page 00 1700000000000000 1700000000000000 1700000000000") + compactSize*len(event.Entries)
		}
		p.version = event.Version
		r.events = append(r.events, event)
		r.eventCount++
		r.published += uint64(size)
		r.delivered += uint64(size * len(r.nodes))
		p.paid = p.paid.Add(time.Duration(len(r.nodes)) * (noticePace + time.Duration(len(event.Entries))*changePace))
	}
	if len(p.waiting) == 0 {
		return 0
	}
	return p.paid.Sub(now) - allowance + time.Millisecond
}

// read returns the version of a shard, and with whole all of its observations, which takes a second command.
func (r *redis) read(n int, whole bool, done func(health.Shard)) {
	var got health.Shard
	r.command(func() time.Duration {
		before := r.shards[n].version
		wait := r.notify(n)
		if wait > 0 && r.shards[n].version == before {
			wait += othersWait
		}
		got = health.Shard{Version: r.shards[n].version, Now: r.time(), Wait: wait}
		return versionCost
	}, func() {
		if !whole || got.Version == 0 {
			done(got)
			return
		}
		r.command(func() time.Duration {
			p := &r.shards[n]
			if p.entries == nil {
				for k, v := range p.observations {
					p.entries = append(p.entries, health.Entry{Key: k, Observation: v})
				}
			}
			got.Version, got.Entries = p.version, p.entries
			return readCost + time.Duration(len(got.Entries))*entryCost
		}, func() { done(got) })
	})
}

// restart empties Redis. Followers subscribe again after a while, and miss the events published in between.
func (r *redis) restart() {
	r.epoch++
	r.members, r.shards = map[string]memberEntry{}, [health.Shards]simShard{}
	for i, node := range r.nodes {
		node.unsubscribed = true
		after := backAtLeast + (backAtMost-backAtLeast)*time.Duration(i)/time.Duration(len(r.nodes))
		r.clock.after(after, func() {
			node.unsubscribed = false
			node.receive(health.Event{Subscribed: true})
		})
	}
}
