package sim

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// Redis is a virtual Redis: a master, and a replica with a prefix of the master's commands. It may fail over, restart
// without its data, and reject writes.
type Redis struct {
	w    *Simulation
	wire *Wire

	mu     sync.Mutex
	master *miniredis.Miniredis
	parts  map[*Conn][]byte // of incomplete commands
	log    []command
	copied int
	older  *behind       // the replica's data if it has not followed since a restart; nil if it follows
	grown  chan struct{} // closed, and replaced, when copied grows
	sites  []*Site
	full   bool // the master rejects writes
}

// behind is the state of a replica that may lack commands.
type behind struct {
	log  []command
	lost time.Time // time of the first write that it lacks
}

// command is a command that the master executed.
type command struct {
	at   time.Time
	args []string
}

// NewRedis starts a Redis.
func (w *Simulation) NewRedis() *Redis {
	r := &Redis{w: w, parts: map[*Conn][]byte{}, grown: make(chan struct{})}
	r.wire = &Wire{Describe: describe, Arrived: r.arrived}
	r.master = r.start()
	return r
}

func (r *Redis) start() *miniredis.Miniredis {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	first, err := m.Dial() // starts the server
	if err != nil {
		panic(err) // an error of a listener, of which there is none
	}
	_ = first.Close()
	m.Server().SetPreHook(func(p *server.Peer, cmd string, args ...string) bool {
		if r.refuses(cmd) {
			p.WriteError("OOM command not allowed when used memory > 'maxmemory'.")
			return true
		}
		if cmd != "WAIT" || len(args) != 2 {
			return false
		}
		ms, _ := strconv.Atoi(args[1])
		p.WriteInt(r.wait(time.Duration(ms) * time.Millisecond))
		return true
	})
	return m
}

// Master returns the server, for tests that inspect its data.
func (r *Redis) Master() *miniredis.Miniredis {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.master
}

// Dialer returns the function by which a site connects.
func (r *Redis) Dialer(s *Site) func(ctx context.Context, network, addr string) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sites = append(r.sites, s)
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return s.Dial(ctx, "redis", r.wire, func(c *Conn) { r.Master().Server().ServeConn(c) })
	}
}

// wait executes the command WAIT for one replica.
func (r *Redis) wait(limit time.Duration) int {
	ends := time.NewTimer(limit)
	defer ends.Stop()
	r.mu.Lock()
	want := len(r.log)
	r.mu.Unlock()
	for {
		r.mu.Lock()
		enough, grown := r.older == nil && r.copied >= want, r.grown
		r.mu.Unlock()
		if enough {
			return 1
		}
		select {
		case <-grown:
		case <-ends.C:
			return 0
		}
	}
}

// arrived adds commands to the log.
func (r *Redis) arrived(c *Conn, p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	buf := append(r.parts[c], p...)
	for {
		args, rest, ok := parse(buf)
		if !ok {
			break
		}
		buf = rest
		if is := strings.ToUpper(args[0]); is != "SUBSCRIBE" && is != "WAIT" && !(r.full && writes(is)) {
			r.log = append(r.log, command{time.Now(), args})
		}
	}
	r.parts[c] = buf
}

// Replicate sends n more commands to the replica.
func (r *Redis) Replicate(n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.copied, r.older = min(r.copied+int(n), len(r.log)), nil
	close(r.grown)
	r.grown = make(chan struct{})
}

// Lag returns the number of commands that the replica lacks.
func (r *Redis) Lag() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	lag := len(r.log) - r.copied
	if r.older != nil {
		lag++
	}
	return lag
}

// Fill makes the master reject writes and scripts, until Fill(false).
func (r *Redis) Fill(full bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.full = full
}

func (r *Redis) refuses(cmd string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.full && writes(cmd)
}

func writes(cmd string) bool {
	return !slices.Contains([]string{"AUTH", "CLIENT", "EXISTS", "GET", "HELLO", "HGET", "HGETALL", "HMGET", "INFO",
		"MGET", "PING", "PTTL", "PUBLISH", "SISMEMBER", "SMEMBERS", "SUBSCRIBE", "WAIT", "ZRANGE"},
		strings.ToUpper(cmd))
}

// Failover promotes the replica. All connections break. It returns the time of the first lost write.
func (r *Redis) Failover() (since time.Time) {
	r.mu.Lock()
	now := r.replica()
	since = now.lost
	r.log, r.copied, r.older = now.log, len(now.log), nil
	r.mu.Unlock()
	r.replace(now.log)
	return since
}

// Restart restarts the master without its data. All connections break. The replica keeps the data until it follows
// again.
func (r *Redis) Restart() {
	r.mu.Lock()
	r.older = r.replica()
	r.log, r.copied = nil, 0
	r.mu.Unlock()
	r.replace(nil)
}

// replica returns the state of the replica. The caller holds mu.
func (r *Redis) replica() *behind {
	if r.older != nil {
		return r.older
	}
	c := &behind{log: r.log[:r.copied], lost: time.Now()}
	if r.copied < len(r.log) {
		c.lost = r.log[r.copied].at
	}
	return c
}

// replace replaces the master with a server that has executed some commands.
func (r *Redis) replace(kept []command) {
	r.mu.Lock()
	old, sites := r.master, r.sites
	r.parts, r.full = map[*Conn][]byte{}, false
	r.mu.Unlock()
	for _, s := range sites {
		s.Cut()
	}
	promoted := r.start()
	replay := server.NewPeer(bufio.NewWriter(io.Discard))
	for _, c := range kept {
		promoted.SetTime(c.at)
		promoted.Server().Dispatch(replay, c.args)
	}
	promoted.SetTime(time.Now())
	promoted.Keys()               // removes expired keys
	promoted.SetTime(time.Time{}) // the bubble's clock again, from which a new ClockTTL counts
	promoted.ClockTTL(true)
	r.mu.Lock()
	r.master = promoted
	r.mu.Unlock()
	old.Close()
}

// Close ends the server.
func (r *Redis) Close() { r.Master().Close() }

// parse returns the first command in RESP, if it is complete.
func parse(p []byte) (args []string, rest []byte, ok bool) {
	n, p, ok := number(p, '*')
	if !ok || n == 0 {
		return nil, nil, false
	}
	for range n {
		var size int
		if size, p, ok = number(p, '$'); !ok || len(p) < size+2 {
			return nil, nil, false
		}
		args, p = append(args, string(p[:size])), p[size+2:]
	}
	return args, p, true
}

func number(p []byte, kind byte) (n int, rest []byte, ok bool) {
	line, rest, ok := bytes.Cut(p, []byte("\r\n"))
	if !ok || len(line) < 2 || line[0] != kind {
		return 0, nil, false
	}
	n, err := strconv.Atoi(string(line[1:]))
	return n, rest, err == nil && n >= 0
}

// describe formats the commands of a chunk, or the start of a response.
func describe(p []byte) string {
	var all []string
	for rest := p; ; {
		args, more, ok := parse(rest)
		if !ok {
			break
		}
		rest = more
		all = append(all, short(args))
	}
	if len(all) == 0 || p[0] != '*' {
		return fmt.Sprintf("%.60q", p)
	}
	return strings.Join(all, "; ")
}

// short formats a command. Scripts appear as their digests.
func short(args []string) string {
	words := make([]string, 0, len(args))
	for i, a := range args {
		if i == 1 && strings.HasPrefix(strings.ToUpper(args[0]), "EVAL") {
			a = fmt.Sprintf("%.8s…", strings.TrimSpace(a))
		}
		if len(a) > 40 {
			a = a[:37] + "…"
		}
		words = append(words, fmt.Sprintf("%.40q", a))
	}
	text := strings.ReplaceAll(strings.Join(words, " "), `"`, "")
	if len(text) > 240 {
		text = text[:237] + "…"
	}
	return text
}
