package conform

import (
	"context"
	"fmt"

	"github.com/capgate/capgate/internal/call"
)

// Rule is a requirement of callers.
type Rule struct {
	Name   string // for machines: "stream-done"
	Says   string // for people: the required behavior
	Source string // the document and its section

	in    dialects
	check check
}

// check checks a rule. It returns nil for a conforming container, a note if it conforms with a remark, and a skip if
// the check cannot decide.
type check func(ctx context.Context, r *run) error

// dialects are the dialects of a rule.
type dialects uint8

const (
	everywhere dialects = 1<<call.Doc | 1<<call.Live | 1<<call.Legacy
	modern     dialects = 1<<call.Doc | 1<<call.Live
	liveOnly   dialects = 1 << call.Live
	legacyOnly dialects = 1 << call.Legacy
)

func (d dialects) has(one call.Dialect) bool { return d&(1<<one) != 0 }

// skip is the reason why a check cannot decide.
type skip string

func (s skip) Error() string { return string(s) }

// note is a remark about a container that conforms.
type note string

func (n note) Error() string { return string(n) }

func skipf(format string, args ...any) error { return skip(fmt.Sprintf(format, args...)) }
