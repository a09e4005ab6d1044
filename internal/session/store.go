package session

import (
	"context"
	"errors"
	"time"

	"github.com/capgate/capgate/internal/lib/changefeed"
)

// Store holds the state of sessions that replicas share. Its methods must end with ctx.
type Store interface {
	// Revoke stores revocations, and takes their sessions off the list. The error is ErrFull if there are too many.
	Revoke(ctx context.Context, all []Revocation) error
	// Revoked returns the revocations after a position, and the position of the last one. A position of another epoch
	// is that of nothing: the store was emptied meanwhile. So is one beyond the last: a failover has undone some.
	Revoked(ctx context.Context, after changefeed.Position) (changefeed.Position, []Revocation, error)
	// Watch calls changed for each revocation, until ctx ends. It may lose some.
	Watch(ctx context.Context, changed func())
	// Add adds an issued session to the list. A list that is too long loses the sessions that end first.
	Add(ctx context.Context, r Record) error
	// List returns the sessions that were issued and have not ended, the newest first: MaxRecords at most.
	List(ctx context.Context) ([]Record, error)
}

// Bounds of a Store.
const (
	MaxRevocations = 50_000
	MaxRecords     = 2000
)

// ErrFull is the error of a store that has MaxRevocations of sessions, or as many of people and keys, or as many of one
// owner as its share allows: four times as many as there is room for.
var ErrFull = errors.New("too many sessions were revoked")

// Record is an issued session in the list for operators. It has no secret.
type Record struct {
	ID      string    `json:"id"`
	Kind    Kind      `json:"kind"`
	Name    string    `json:"name"`
	User    string    `json:"user,omitempty"`
	Issuer  string    `json:"issuer,omitempty"`
	Key     string    `json:"key,omitempty"`
	KeyName string    `json:"key_name,omitempty"`
	Tenant  string    `json:"tenant,omitempty"`
	Via     string    `json:"via"`
	Issued  time.Time `json:"create_time"`
	Expires time.Time `json:"expire_time"`
}
