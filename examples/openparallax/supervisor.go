package openparallax

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The policy for restarts of agents.
const (
	restart     = time.Second      // delay after a failure
	maxFailures = 3                // within failureSpan, after which the agent is given up
	failureSpan = 30 * time.Second // window in which failures are counted
)

// ErrGivenUp is returned when the engine no longer starts its agent.
var ErrGivenUp = errors.New("agent: given up")

// supervise runs the agent until it quits or is given up. An agent whose stream ended with OK has quit, and is never
// restarted.
func (p *Process) supervise(ctx context.Context) error {
	var failures []time.Time
	for {
		err := p.runAgent(ctx)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		p.cfg.Failed(fmt.Errorf("agent: %w", err))
		failures = append(failures, time.Now())
		if len(failures) > maxFailures {
			failures = failures[1:]
		}
		if len(failures) == maxFailures && time.Since(failures[0]) < failureSpan {
			return fmt.Errorf("%w after %d failures: %w", ErrGivenUp, maxFailures, err)
		}
		p.cfg.Pause(ctx)
	}
}

// pause waits as published engines do.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(restart):
	}
}
