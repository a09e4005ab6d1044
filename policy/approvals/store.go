package approvals

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"
)

// Record is an approval as it is stored.
type Record struct {
	Approval // the preview only where there is no key
	Sealed   []byte
}

// Sum names calls that are the same in some of their words, in a tenant.
type Sum [sha256.Size]byte

// Draft is an approval that is made unless there is one of the same call.
type Draft struct {
	Record          // without state and times
	CallSum    Sum  // the same for the same call
	SessionSum *Sum // the same for the calls for which a session's answer holds; nil: the call has no session
	TTL        time.Duration
	MaxOpen    int // how many of a tenant may be open
}

// CreateResult is what a store says to a Draft.
type CreateResult struct {
	Record             // the one that there is, or the new one; only its ID where a session's answer decided
	New          bool  // it was made now
	LimitReached bool  // it could not be made: there are Most
	Remembered   State // what was answered for the session: Approved, Denied, or nothing
	Left         time.Duration
}

// CallStore is what a store does for calls. Each method is one step, and ends with ctx. A step
// that fails may have been taken; a token makes sure that to take it twice is to take it once.
type CallStore interface {
	// Create finds the approval of the same call that is open, or a denial that holds, or makes one.
	Create(ctx context.Context, d *Draft) (CreateResult, error)
	// Redeem makes an approved one used if all words are the same. It answers with what it
	// was, Approved, when this token has it now, and its Trace, and with a *MismatchError or ErrUnknown.
	Redeem(ctx context.Context, w *Binding, id, token string) (was State, trace string, err error)
	// SettingsKey is the key that replicas share to know configurations by: the proposal of whoever
	// asks first.
	SettingsKey(ctx context.Context, proposal []byte) ([]byte, error)
	// Release undoes a use by this token, and says whether it could.
	Release(ctx context.Context, tenant, id, token string) (bool, error)
}

// StoredAnswer is an answer as a store gets it.
type StoredAnswer struct {
	State State // Approved or Denied
	Answer
	Token      string
	TTL        time.Duration // how long it holds
	SessionTTL time.Duration // how long for a session
}

// ReviewStore is what a store does for people.
type ReviewStore interface {
	// Get answers with ErrUnknown where there is none, or none that can be understood.
	Get(ctx context.Context, tenant, id string) (Record, error)
	// State is how one stands, and for how long at most.
	State(ctx context.Context, tenant, id string) (State, time.Duration, error)
	// List answers with a page, the newest first, and after what to go on: "" is where to
	// begin, and that there is no more. A page may be short.
	List(ctx context.Context, tenant string, f Filter, after string, most int) (page []Record, next string, err error)
	// Answer answers one that is pending, and says whether it was; the record is as it is then.
	// ErrNoSession: it was to hold for a session, and the call has none.
	Answer(ctx context.Context, tenant, id string, r *StoredAnswer) (Record, bool, error)
	// Events are those after one, the oldest first. "" is the last that there is, and answers
	// with none of them. last is where to go on.
	Events(ctx context.Context, tenant, after string, most int) (events []RecordEvent, last string, err error)
}

// RecordEvent is an Event with an approval as it is stored.
type RecordEvent struct {
	ID     string
	Kind   Kind
	Record Record
}

// Notification is told to all replicas when something happens to an approval.
type Notification struct {
	Tenant, ID string
	Kind       Kind
	Session    *Sum // whose answer has changed; nil: no session's
}

// Store is what replicas share.
type Store interface {
	CallStore
	ReviewStore
	// Watch tells of what happens until ctx ends. It may lose notices, and says with
	// connected when it may have.
	Watch(ctx context.Context, told func(Notification), connected func())
	// Expired is how many approvals it has found to be over, which nobody had before.
	Expired() int64
}

// What a Store answers.
var (
	ErrUnknown   = errors.New("there is no such approval")
	ErrNoSession = errors.New("the call has no session for which the answer could hold")
)

// MismatchError says in which words a call differs from the one that was approved.
type MismatchError struct{ Fields []string }

func (*MismatchError) Error() string { return "the approval is of another call" }
