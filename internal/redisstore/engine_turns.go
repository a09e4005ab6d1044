package redisstore

import (
	"context"
	"time"

	"github.com/capgate/capgate/gateway/engine/turns"
)

var (
	waitTurnScript  = newScript("turns_wait")
	holdTurnScript  = newScript("turns_hold")
	leaveTurnScript = newScript("turns_leave")
	seizeScript     = newScript("turns_seize")
	yieldScript     = newScript("turns_yield")
)

// EngineTurns stores the turns and leases of engines. It is a turns.Store.
type EngineTurns struct{ client }

// EngineTurns returns the store of turns.
func (s *Store) EngineTurns() *EngineTurns { return &EngineTurns{s.client(Engines)} }

func (s *EngineTurns) turnKeys(engine string) []string {
	return s.keys([]string{engine}, "{engines:turns:ENGINE}:state", "{engines:turns:ENGINE}:held",
		"{engines:turns:ENGINE}:line", "{engines:turns:ENGINE}:alive", "{engines:turns:ENGINE}:tenants",
		"{engines:turns:ENGINE}:served")
}

// args returns the arguments of all scripts of turns.
func (s *EngineTurns) args(t *turns.Ticket, wary bool, more ...any) []any {
	return append([]any{s.channel("turns"), t.ID, ms(t.Lease), flag(wary)}, more...)
}

// ms returns a duration in milliseconds, at least one: Redis rejects an expiry of 0.
func ms(d time.Duration) int64 { return max(d.Milliseconds(), 1) }

func flag(is bool) int {
	if is {
		return 1
	}
	return 0
}

// Wait implements turns.Store.
func (s *EngineTurns) Wait(ctx context.Context, t *turns.Ticket) (turns.Status, error) {
	args := s.args(t, t.MaybeLost, joinWords([]string{t.Tenant}), t.MaxWaiting, t.Seq)
	r := s.read(ctx, waitTurnScript, s.turnKeys(t.Engine), args...)
	state, known := map[string]turns.State{"mine": turns.Granted, "waits": turns.Waiting, "full": turns.Full}[r.text()]
	if !known {
		r.fail()
	}
	return turns.Status{State: state, Seq: r.int(), Left: r.millis()}, r.end()
}

// Hold implements turns.Store.
func (s *EngineTurns) Hold(ctx context.Context, t *turns.Ticket) error {
	return s.run(ctx, holdTurnScript, s.turnKeys(t.Engine), s.args(t, true)...).Err()
}

// Leave implements turns.Store.
func (s *EngineTurns) Leave(ctx context.Context, t *turns.Ticket, held bool) error {
	return s.run(ctx, leaveTurnScript, s.turnKeys(t.Engine), s.args(t, true, flag(held))...).Err()
}

func (s *EngineTurns) agentKeys(c *turns.LeaseRequest) []string {
	return s.keys([]string{c.Engine}, "{engines:turns:ENGINE}:agent")
}

// Acquire implements turns.Store.
func (s *EngineTurns) Acquire(ctx context.Context, c *turns.LeaseRequest) (bool, error) {
	return s.run(ctx, seizeScript, s.agentKeys(c), s.channel("turns"), c.ID, c.Who, ms(c.Lease),
		flag(c.Takeover)).Bool()
}

// Release implements turns.Store.
func (s *EngineTurns) Release(ctx context.Context, c *turns.LeaseRequest) error {
	return s.run(ctx, yieldScript, s.agentKeys(c), c.ID).Err()
}

// Watch implements turns.Store.
func (s *EngineTurns) Watch(ctx context.Context, changed func(id string), connected func()) {
	s.subscribe(ctx, s.channel("turns"), changed, connected)
}

var _ turns.Store = (*EngineTurns)(nil)
