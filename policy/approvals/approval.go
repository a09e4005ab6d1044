package approvals

import (
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/toolschema"
)

// Request is a call that needs an approval.
type Request struct {
	Tenant, User, Agent, Capability, Tool, Session string

	Description string          // of the tool; "": unknown
	Change      string          // how the tool differs from its accepted version; "": it does not
	Schema      toolschema.Hash // of the tool; zero: unknown
	Args        []byte          // JSON as sent; empty means {}
	Thread      string
	Config      []byte      // JSON as sent; only a keyed hash of it is stored; empty means {}
	Context     [][2][]byte // further configuration of the call, as pairs of name and value; in any order
	Settings    []Sum       // of Config and Context, under each key; once computed, those are not needed
	RequestID   string
	Trace       string // traceparent of the requesting span; "": not traced
	Level       string // the level of policy, or the kind of backend, that requires it
	Why         string // for the approver; may be ""

	// Turn waits for a permit to parse the arguments, which is CPU work; nil: no limit.
	Acquire func(context.Context) (done func(), refusal *call.Refusal)

	Until time.Time // latest time of an answer; zero: Options.TTL applies
}

// Elsewhere is the level of questions that only the backend's own user interface can answer. The approval shows that
// the question is open.
const Elsewhere = "elsewhere"

// byBackend reports whether a level is a kind of backend rather than a level of rules: the question is then the
// backend's own, the policy is not involved, and an answer holds only for that question.
func byBackend(level string) bool { return level != "" && !call.IsLevel(level) }

// Binding is the identity of an approved call: a call with another value in any field is another call.
type Binding struct {
	Tenant, User, Agent, Capability, Tool, Session, Thread string

	Schema   toolschema.Hash
	ArgsHash [sha256.Size]byte // see canonical
	Settings Sum               // keyed hash of the call's configuration; zero: none
}

// Approval is a request for a person's approval of a call, with its state.
type Approval struct {
	ID string // unguessable
	Binding

	Description, Change, RequestID, Trace, Level, Why string

	Preview    string // the arguments, pretty-printed, with likely secrets masked
	Excerpt    bool   // Preview and Value are shortened
	Whole      bool   // the arguments are stored whole: Service.Get returns all of them
	Unreadable bool   // no preview: the encryption key of the arguments is not configured
	State      State
	Created    time.Time
	Expires    time.Time // end of the time to answer, to redeem, or of the denial; all times are of the store's clock
	Answered   time.Time // zero: not yet
	Changed    time.Time // last redemption or release; zero: never
	By         string    // the approver
	Comment    string
	Remember   Remember
	Link       string        // address of the page that answers it; "": the gateway does not know its public URL
	ValidFor   time.Duration // of an answer for session or always; 0: no end, or unknown
	Answers    []GivenAnswer // of each person, the oldest first
	Value      string        // the preview as a JSON value, with the masks as strings; "": it is too long, or unknown
	Terms      *Terms        // of answers, by the rules in force; set by a Service
	Covered    *Covered      // other approvals that this answer answered; set by Approve and Deny
}

// Seen reports whether a person can see all arguments of the call. Otherwise it cannot be approved.
func (a *Approval) Seen() bool { return a.Whole && !a.Unreadable }

// ValidUntil returns the end of an answer for session or always; zero: it has none, or is for one call.
func (a *Approval) ValidUntil() time.Time {
	if a.ValidFor == 0 || a.Remember == ThisCall || a.Answered.IsZero() {
		return time.Time{}
	}
	return a.Answered.Add(a.ValidFor)
}

// Updated returns the time of the last state change.
func (a *Approval) Updated() time.Time {
	last := a.Created
	for _, t := range []time.Time{a.Answered, a.Changed} {
		if t.After(last) {
			last = t
		}
	}
	for i := range a.Answers {
		if t := a.Answers[i].Time; t.After(last) {
			last = t
		}
	}
	if a.State == Expired {
		return a.Expires
	}
	return last
}

// State is the state of an approval.
type State uint8

// The states. The zero value is no state; in a Filter it matches all.
const (
	_ State = iota
	Pending
	Approved // can be redeemed
	Denied
	Expired // not answered, or not redeemed, in time
	Used
)

var stateNames = [...]string{"", "pending", "approved", "denied", "expired", "used"}

func (s State) String() string { return stateNames[s] }

// ParseState parses a state's name.
func ParseState(name string) (State, bool) {
	for i, n := range stateNames {
		if i > 0 && n == name {
			return State(i), true
		}
	}
	return 0, false
}

// Open reports whether the call can still run.
func (s State) Open() bool { return s == Pending || s == Approved }

// Remember is the scope of an answer.
type Remember uint8

// The scopes.
const (
	ThisCall    Remember = iota // the call itself
	ThisSession                 // calls of the unchanged tool by this user and agent in this session, for a time
	Always                      // calls of the tool by this user with this agent, as a rule
)

var rememberNames = [...]string{"call", "session", "always"}

func (r Remember) String() string { return rememberNames[r] }

// ParseRemember parses a scope's name; "" is "call".
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

// Answer is a person's answer to a request for approval.
type Answer struct {
	By       string // the approver, as known to the gateway
	Comment  string // for the record; truncated to 1 KiB
	Remember Remember
	ValidFor time.Duration // for session and always; 0: the default
	Who      Approver
}

// Filter selects approvals. A zero field matches any value.
type Filter struct {
	State                         State
	User, Agent, Capability, Tool string

	// Text is the id, or part of the user, the agent, the capability, the tool, its description, the request id or the
	// session. The letters A to Z match in both cases.
	Text  string
	Order Order
	Sees  func(capability string) bool // nil: all capabilities
}

// Order is the order of a list.
type Order uint8

// The orders.
const (
	Newest  Order = iota // the newest first
	Oldest               // the oldest first
	Expires              // only those that are pending or approved; those that expire first come first
)

var orderNames = [...]string{"newest", "oldest", "expires"}

func (o Order) String() string { return orderNames[o] }

// ParseOrder parses an order's name; "" is "newest".
func ParseOrder(name string) (Order, bool) {
	at := slices.Index(orderNames[:], cmp.Or(name, orderNames[Newest]))
	return Order(max(at, 0)), at >= 0
}

// Kind is the kind of an event.
type Kind string

// The kinds of events.
const (
	EventCreated  Kind = "asked"
	EventApproved Kind = "approved"
	EventDenied   Kind = "denied"
	EventUsed     Kind = "used"
	EventReleased Kind = "released"
	EventExpired  Kind = "expired"
	// EventAnswered is an answer after which further people have to approve.
	EventAnswered Kind = "answered"
	// EventEscalated says that further groups may answer.
	EventEscalated Kind = "escalated"
	// EventsStart is the first event of every stream, and no approval's: the position where the stream begins.
	EventsStart Kind = "began"
	// EventsLost is no approval's event: events after the reader's position were dropped.
	EventsLost Kind = "missed"
)

// Event is something that happened to an approval.
type Event struct {
	ID       string // position of the event in the stream
	Kind     Kind
	Approval Approval // at the time of reading; only its ID and tenant if it was deleted
}

// Redemption is the use of an approval by one call.
type Redemption struct {
	Tenant, ID string
	Trace      string // traceparent of the requesting span; "": not traced
	token      string
}
