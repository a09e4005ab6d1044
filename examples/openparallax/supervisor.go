package openparallax

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// How agents are started again.
const (
	restart     = time.Second      // after an agent has failed
	maxFailures = 3                // within failureSpan: the agent is given up
	failureSpan = 30 * time.Second // of the failures that count
)

// ErrGivenUp says that the engine starts its agent no more.
var ErrGivenUp = errors.New("agent: given up")

// supervise runs the agent until it quits, or is given up. An agent whose stream ended with OK has quit, and is never
// started again.
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
