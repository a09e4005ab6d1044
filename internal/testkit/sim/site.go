package sim

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// Site is a process with virtual sockets, such as a replica.
type Site struct {
	w    *Simulation
	name string

	mu     sync.Mutex
	silent bool                 // no bytes arrive or leave
	late   func() time.Duration // transit time of a chunk; nil for none
	dead   bool                 // no connection succeeds
	conns  []*Conn
	made   int // number of connections so far
}

// Site returns a new process.
func (w *Simulation) Site(name string) *Site { return &Site{w: w, name: name} }

// Dial connects to a server and runs serve on the other end. The connection waits for its event.
func (s *Site) Dial(ctx context.Context, server string, wire *Wire, serve func(*Conn)) (net.Conn, error) {
	if s.gone() {
		return nil, ErrReset
	}
	if err := s.w.await(ctx, &Event{Key: s.name + " → " + server + " connect", held: s.holds}); err != nil {
		return nil, err
	}
	c, peer := newPipe(s, wire, server)
	s.mu.Lock()
	dead := s.dead
	if !dead {
		s.conns = append(s.conns, c)
	}
	s.mu.Unlock()
	if dead {
		return nil, ErrReset
	}
	serve(peer)
	return c, nil
}

// next returns the number of the next connection.
func (s *Site) next() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	return s.made
}

func (s *Site) holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.silent
}

// Late sets the transit time of chunks, in either direction.
func (s *Site) Late(by func() time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = by
}

// arrives returns the arrival time of a chunk that is sent now.
func (s *Site) arrives() time.Duration {
	s.mu.Lock()
	by := s.late
	s.mu.Unlock()
	if by == nil {
		return 0
	}
	d := by()
	s.w.After(d, func() {})
	return s.w.Now() + d
}

// gone reports whether the process was killed. Its remaining actions have no effect.
func (s *Site) gone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// Before waits until a command may be sent. It is the Before hook of a Redis client.
func (s *Site) Before(ctx context.Context, command string) {
	if s.gone() {
		return
	}
	what, _, _ := strings.Cut(command, "\n")
	actor, _ := ctx.Value(actorKey{}).(string)
	e := &Event{Key: s.name + " sends " + fmt.Sprintf("%.60q", what), order: command, cause: actor, held: s.holds}
	_ = s.w.await(ctx, e) // on failure, the command fails
}

// forget removes a connection that has ended.
func (s *Site) forget(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = slices.DeleteFunc(s.conns, func(other *Conn) bool { return other == c || other.peer == c })
}

// Conns returns the number of open connections.
func (s *Site) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Silence holds back all bytes that arrive or leave, until Silence(false).
func (s *Site) Silence(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = silent
}

// ResetOne resets the nth connection, if it exists, in the order of their last use.
func (s *Site) ResetOne(n uint64) {
	s.mu.Lock()
	all := slices.Clone(s.conns)
	s.mu.Unlock()
	slices.SortStableFunc(all, func(a, b *Conn) int { return strings.Compare(a.use(), b.use()) })
	if len(all) > 0 {
		all[n%uint64(len(all))].Reset()
	}
}

// Kill resets all connections, and makes later ones fail.
func (s *Site) Kill() {
	s.mu.Lock()
	s.dead = true
	s.mu.Unlock()
	s.Cut()
}

// Cut resets all connections.
func (s *Site) Cut() {
	s.mu.Lock()
	all := slices.Clone(s.conns)
	s.mu.Unlock()
	for _, c := range all {
		c.Reset()
	}
}
