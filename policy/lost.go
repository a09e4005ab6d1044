package policy

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/capgate/capgate/internal/lib/changefeed"
)

// Feed delivers changes of the rules.
type Feed interface {
	// Watch is that of changefeed.Feed.
	Watch(ctx context.Context, changed func(version uint64, c Change), connected func())
	// Revision returns the state of the stored rules. It must end with ctx.
	Revision(ctx context.Context) (Revision, error)
	// MarkLost stores that the rules of an epoch are lost, for replicas that start later. It must end with ctx.
	MarkLost(ctx context.Context, epoch string) error
}

// Revision is the state of the stored rules.
type Revision struct {
	// Position is that of the last change. An empty epoch means no rules, or rules of an older gateway.
	changefeed.Position
	Lost     string   // epoch that a replica found lost; "": none
	Accepted []string // lost epochs that an operator has accepted
}

// noEpoch is the epoch of rules that a gateway without epochs has written.
const noEpoch = "-"

// current returns the epoch of the stored rules; "" without stored rules.
func (r *Revision) current() string {
	if r.Version == 0 {
		return r.Epoch
	}
	return cmp.Or(r.Epoch, noEpoch)
}

// unlessAccepted returns epoch, or "" if an operator has accepted its loss.
func (r *Revision) unlessAccepted(epoch string) string {
	if slices.Contains(r.Accepted, epoch) {
		return ""
	}
	return epoch
}

var errLost = errors.New("the store has lost rules")

// lossDetector is a feed without a version while its rules are lost, so that nothing is decided by what is left of
// them. Lost rules stay lost until they are restored, or an operator accepts the loss.
type lossDetector struct {
	Feed
	d  *Decider
	at changefeed.Position // that was seen last
}

// Version implements changefeed.Feed.
func (l *lossDetector) Version(ctx context.Context) (uint64, error) {
	now, err := l.Revision(ctx)
	if err != nil {
		return 0, err
	}
	if lost := l.lost(&now); lost != "" {
		l.d.lose()
		if now.Lost != lost {
			err = l.MarkLost(ctx, lost) // after an error the next round tries again
		}
		return 0, errors.Join(errLost, err)
	}
	l.at = changefeed.Position{Epoch: now.current(), Version: now.Version}
	return now.Version, nil
}

// lost returns the epoch of lost rules; "": none.
func (l *lossDetector) lost(now *Revision) string {
	current := now.current()
	begun := l.at.Epoch == noEpoch && now.Version > l.at.Version // the first change that has an epoch
	if l.at.Epoch != "" && l.at.Epoch != current && !begun {
		if lost := now.unlessAccepted(l.at.Epoch); lost != "" {
			return lost
		}
	}
	if now.Lost != current {
		return now.unlessAccepted(now.Lost)
	}
	return "" // restored
}

// lose records that the store has lost rules. What was read from it since the last sync may be of the emptied store.
func (d *Decider) lose() {
	if d.freshness.StoreLost(true) {
		return
	}
	d.cache.dropSince(d.freshness.LastSync())
	d.opts.Lost(true)
}
