package approvals

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/toolschema"
)

// Request is a call that has to be approved.
type Request struct {
	Tenant, User, Agent, Capability, Tool, Session string

	Description string          // of the tool, "" where it is not known
	Schema      toolschema.Hash // of the tool; zero: not known
	Args        []byte          // JSON as it was sent; empty is {}
	Thread      string
	Config      []byte      // JSON as it was sent, of which only a keyed hash is kept; empty is {}
	Context     [][2][]byte // what else configures the call, each a name and a value; in any order
	Settings    []Sum       // of Config and Context, under each key, once they were read; then those are not needed
	RequestID   string
	Trace       string // traceparent of the span that asks; "" where it is not traced
	Level       string // which level of policy asked, or which kind of backend
	Why         string // for who answers; may be ""

	// Acquire waits until the arguments may be read, which takes a processor's time; nil: at once.
	Acquire func(context.Context) (done func(), refusal *call.Refusal)

	Until time.Time // there is no more time to answer than this; zero: as long as Options say
}

// byBackend says whether a level is the name of a kind of backends, and not of policy's: then a backend asks by itself.
// Policy has no part in it, and no answer holds for more than the one question.
func byBackend(level string) bool { return level != "" && !call.IsLevel(level) }

// Binding are what an approval holds for: a call that differs in one of them is another.
type Binding struct {
	Tenant, User, Agent, Capability, Tool, Session, Thread string

	Schema   toolschema.Hash
	ArgsHash [sha256.Size]byte // see canonical
	Settings Sum               // of what configures the call, under a key; zero: nothing does
}

// Approval is a call that a person was asked about, and what became of it.
type Approval struct {
	ID string // unguessable
	Binding

	Description, RequestID, Trace, Level, Why string

	Preview    string // the arguments, pretty-printed, values that look secret masked; at most about 8 KiB
	Unreadable bool   // there is no preview: the arguments are encrypted with a key that is not configured
	State      State
	Created    time.Time
	Expires    time.Time // until when it can be answered, then used, or holds as a denial; all by the store's clock
	Answered   time.Time // zero: not yet
	Changed    time.Time // when it was last used or released; zero: never
	By         string    // who answered
	Comment    string
	Remember   Remember
}

// Updated is when its state last changed.
func (a *Approval) Updated() time.Time {
	last := a.Created
	for _, t := range []time.Time{a.Answered, a.Changed} {
		if t.After(last) {
			last = t
		}
	}
	if a.State == Expired {
		return a.Expires
	}
	return last
}

// State is what became of an approval.
type State uint8

// The states. The zero value is none: in a Filter it stands for all.
const (
	_ State = iota
	Pending
	Approved // may be used
	Denied
	Expired // nobody answered, or nobody used it, in time
	Used
)

var stateNames = [...]string{"", "pending", "approved", "denied", "expired", "used"}

func (s State) String() string { return stateNames[s] }

// ParseState reads a state's name.
func ParseState(name string) (State, bool) {
	for i, n := range stateNames {
		if i > 0 && n == name {
			return State(i), true
		}
	}
	return 0, false
}

// Open says whether the call can still come to run.
func (s State) Open() bool { return s == Pending || s == Approved }

// Remember is for which calls an answer holds.
type Remember uint8

// An answer holds for
const (
	ThisCall    Remember = iota // this call
	ThisSession                 // calls of the tool, as it is, by this user and agent in this session, for a time
	Always                      // calls of the tool by this user with this agent: it becomes a rule
)

var rememberNames = [...]string{"call", "session", "always"}

func (r Remember) String() string { return rememberNames[r] }

// ParseRemember reads its name; "" is "call".
func ParseRemember(name string) (Remember, bool) {
	if name == "" {
		return ThisCall, true
	}
	for i, n := range rememberNames {
		if n == name {
			return Remember(i), true
		}
	}
	return ThisCall, false
}

// Answer is what a person says to an approval.
type Answer struct {
	By       string // who, as they are known to the gateway
	Comment  string // for the record; cut after 1 KiB
	Remember Remember
}

// Filter says which approvals are wanted. What is left zero is any.
type Filter struct {
	State                         State
	User, Agent, Capability, Tool string

	Sees func(capability string) bool // nil: of all capabilities
}

// Kind is what happened to an approval.
type Kind string

// The kinds of events.
const (
	EventCreated  Kind = "asked"
	EventApproved Kind = "approved"
	EventDenied   Kind = "denied"
	EventUsed     Kind = "used"
	EventReleased Kind = "released"
	EventExpired  Kind = "expired"
	// EventsStart tells of no approval but where the events that follow begin.
	EventsStart Kind = "began"
	// EventsLost tells of no approval: events after the one where the reader was are gone.
	EventsLost Kind = "missed"
)

// Event is something that happened to an approval.
type Event struct {
	ID       string // where to go on after it
	Kind     Kind
	Approval Approval // as it was when the event was read; only its ID and tenant where it is gone
}

// Redemption is an approval that one call has consumed.
type Redemption struct {
	Tenant, ID string
	Trace      string // traceparent of the span that asked for it; "" where it was not traced
	token      string
}
