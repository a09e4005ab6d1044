package conform

import (
	"context"
	"fmt"

	"github.com/capgate/capgate/internal/call"
)

// Rule is one thing that callers rely on.
type Rule struct {
	Name   string // for machines: "stream-done"
	Says   string // for people: what a container does that keeps to it
	Source string // the document and its section

	in    dialects
	check check
}

// check finds out whether a container keeps to a rule: nil if it does, a skip where that cannot be told.
type check func(ctx context.Context, r *run) error

// dialects are those in which a rule holds.
type dialects uint8

const (
	everywhere dialects = 1<<call.Doc | 1<<call.Live | 1<<call.Legacy
	modern     dialects = 1<<call.Doc | 1<<call.Live
	liveOnly   dialects = 1 << call.Live
	legacyOnly dialects = 1 << call.Legacy
)

func (d dialects) has(one call.Dialect) bool { return d&(1<<one) != 0 }

// skip is why a check cannot tell.
type skip string

func (s skip) Error() string { return string(s) }

func skipf(format string, args ...any) error { return skip(fmt.Sprintf(format, args...)) }
