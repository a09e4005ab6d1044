package gateway

import (
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/observe"
	"github.com/capgate/capgate/internal/observe/tracing"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/router"
)

// ticketHeader carries the ticket of a call through the translator. It is never sent
// to a backend.
const ticketHeader = "x-capgate-ticket"

// crossing is what the second passage of a call has to know of the first.
type crossing struct {
	target  *router.Backend // chosen, and claimed by the first until it ends
	tries   int
	session string // that it was chosen for
	caller  tenant.Identity
	span    *tracing.Span
	trace   observe.TraceID
}

// crossings are the calls that went to the translator. Such a call passes the gateway
// twice. The second passage goes where the first meant it to go: were it to choose
// again, a fleet whose backends speak different dialects could send it to and fro
// without end. And the call is recorded once: when it comes back if it does, as only
// then it is known what became of it, else when it ends. Whoever claims its ticket
// records it.
type crossings struct {
	secret string // at the beginning of every ticket; no caller knows it
	ours   string // the ticket of every call that the gateway itself makes, the same
	last   atomic.Uint64
	open   sync.Map // of tickets that nobody has claimed, to their crossing
}

func newCrossings() *crossings { return &crossings{secret: rand.Text(), ours: rand.Text()} }

// leave issues the ticket of a call that goes to the translator. A call that did not
// get there, and goes again, keeps its ticket.
func (c *crossings) leave(ticket string, x crossing) string {
	if ticket == "" {
		ticket = c.secret + strconv.FormatUint(c.last.Add(1), 36)
	}
	c.open.Store(ticket, x)
	return ticket
}

// claim is true once for every ticket.
func (c *crossings) claim(ticket string) (crossing, bool) {
	x, open := c.open.LoadAndDelete(ticket)
	if !open {
		return crossing{}, false
	}
	return x.(crossing), true
}

// comesBack tells a call that comes from the translator from one whose caller made a
// ticket up.
func (c *crossings) comesBack(ticket string) bool { return strings.HasPrefix(ticket, c.secret) }

// crossing is what the second passage of a call has to know, in strings that outlive the first.
func (t *transit) crossing() crossing {
	who := tenant.Identity{Tenant: t.call.Tenant, Key: t.call.Key, Scopes: tenant.Invoke, User: strings.Clone(t.call.User), Agent: strings.Clone(t.call.Agent), Settings: t.settings}
	return crossing{t.target, t.tries, strings.Clone(t.call.Session), who, t.span, t.trace}
}

// comeBack goes on with a call that the translator brings back. Its caller is known: the
// credential did not cross. One whose first passage has ended meanwhile has nobody to
// answer to.
func (h *handler) comeBack(t *transit, ticket string) (tenant.Identity, *call.Refusal) {
	x, open := h.crossings.claim(ticket)
	if !open {
		t.recorded = true
		return tenant.Identity{}, refusedService
	}
	t.target, t.tries, t.call.Session, t.assigned = x.target, x.tries, x.session, true
	t.span, t.trace = x.span, x.trace
	return x.caller, nil
}

// records says whether a call that has ended is to be recorded here.
func (h *handler) records(t *transit) bool {
	if t.own || t.recorded {
		return false
	}
	if t.ticket == "" {
		return true
	}
	_, here := h.crossings.claim(t.ticket)
	return here
}
