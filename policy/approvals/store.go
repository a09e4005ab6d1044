package approvals

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"
)

// Record is a stored approval.
type Record struct {
	Approval // the preview only without a key
	Sealed   []byte
}

// Sum identifies the calls of a tenant that share some fields.
type Sum [sha256.Size]byte

// Draft is an approval to create, unless the same call has one.
type Draft struct {
	Record          // without state and times
	CallSum    Sum  // the same for the same call
	SessionSum *Sum // the same for the calls that share a session's answer; nil: no session
	TTL        time.Duration
	Escalates  time.Duration // time until it escalates; 0: never
	MaxOpen    int           // maximum of a tenant's open approvals
}

// CreateResult is the store's result for a Draft.
type CreateResult struct {
	Record             // the existing or the new one; only its ID if a session's answer applies
	New          bool  // it was created now
	LimitReached bool  // it was not created: there are MaxOpen already
	Remembered   State // the answer for the session: Approved, Denied, or none
	Left         time.Duration
}

// CallStore is the store's operations for calls. Each is atomic, and ends with ctx. An operation that fails may
// have been applied; its token makes a repetition idempotent.
type CallStore interface {
	// Create returns the open approval or the valid denial of the same call, or creates an approval.
	Create(ctx context.Context, d *Draft) (CreateResult, error)
	// Redeem marks an approved approval as used, if the binding matches. It returns the former state, which
	// is Approved if this token now holds it, and its Trace; or a *MismatchError or ErrUnknown.
	Redeem(ctx context.Context, w *Binding, id, token string) (was State, trace string, err error)
	// Release undoes a redemption by this token, and reports success.
	Release(ctx context.Context, tenant, id, token string) (bool, error)
}

// StoredAnswer is an answer in the form of the store.
type StoredAnswer struct {
	State State       // Approved or Denied
	Given GivenAnswer // of this person; zero: it is recorded already
	Token string
	TTL   time.Duration // lifetime of the answer

	Checked bool     // the answer is stale unless exactly the people in Before have answered
	Before  []string // all people that answered earlier
	More    bool     // further people must answer; else the approval is answered

	// of the answer as a whole
	By, Comment string
	Names       []string // of all people that have answered, as in By
	Remember    Remember
	ValidFor    time.Duration // for session and always; 0: no end
}

// AnswerResult is the store's result for an answer.
type AnswerResult uint8

// The results.
const (
	_              AnswerResult = iota
	AnswerGiven                 // the approval is answered
	AnswerRecorded              // further people have to answer
	AnswerLate                  // it was not pending
	AnswerStale                 // other people have answered than those of Before: decide again
)

// DueStore finds approvals that escalate. Each operation is atomic.
type DueStore interface {
	// Due returns pending approvals of a tenant that may be due, at most a hundred, and the time until there may be
	// more; negative without waiting approvals.
	Due(ctx context.Context, tenant string) (due []Record, next time.Duration, err error)
	// Escalate ends the wait of an approval. It reports whether this call did, and then publishes EventEscalated.
	Escalate(ctx context.Context, tenant, id string) (bool, error)
	// Postpone changes when an approval is due, from now on; negative: never.
	Postpone(ctx context.Context, tenant, id string, after time.Duration) error
}

// ReviewStore is the store's operations for people.
type ReviewStore interface {
	// Get returns ErrUnknown if there is no approval, or a malformed one.
	Get(ctx context.Context, tenant, id string) (Record, error)
	// State returns the state of an approval, and the longest time for which it lasts.
	State(ctx context.Context, tenant, id string) (State, time.Duration, error)
	// List returns a page in the order of the filter, and the token of the next page. "" is the token of the first
	// page, and means that there is no further one. A page may be short.
	List(ctx context.Context, tenant string, f Filter, after string, most int) (page []Record, next string, err error)
	// Answer records an answer to a pending approval. The record is the current one.
	// ErrNoSession: the scope is a session, and the call has none.
	Answer(ctx context.Context, tenant, id string, r *StoredAnswer) (Record, AnswerResult, error)
	// Withdraw ends a pending approval as if it had expired now, and does nothing to others.
	Withdraw(ctx context.Context, tenant, id string) error
	// Events returns the events after a position, the oldest first, and the position of the last one. After "",
	// it returns no events, and the position of the last one that is stored.
	Events(ctx context.Context, tenant, after string, most int) (events []RecordEvent, last string, err error)
}

// RecordEvent is an Event with a stored approval.
type RecordEvent struct {
	ID     string
	Kind   Kind
	Record Record
}

// Notification is sent to all replicas for each event.
type Notification struct {
	Tenant, ID string
	Kind       Kind
	Session    *Sum // the session with a changed answer; nil: none
}

// Store is shared by replicas.
type Store interface {
	CallStore
	ReviewStore
	DueStore
	PastStore
	// Watch delivers notifications until ctx ends. It may lose some, and calls connected when it may have.
	Watch(ctx context.Context, notified func(Notification), connected func())
	// Expired returns the number of approvals that this store first found to have expired.
	Expired() int64
}

// The errors of a Store.
var (
	ErrUnknown   = errors.New("the approval does not exist")
	ErrNoSession = errors.New("the call has no session for which the answer could be remembered")
)

// MismatchError names the fields in which a call differs from the approved one.
type MismatchError struct{ Fields []string }

func (*MismatchError) Error() string { return "the approval is for another call" }
