package filter

import (
	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// Opening is the part of a Call that is only needed until a backend's response starts. A long-lived stream does not
// hold it: it is released then, unless code in the process serves the call, and is empty at the end of the call.
type Opening struct {
	Spoken     dialect.Entry // RPC of Stream; the translator replaces the RPC of some calls
	Service    string        // "package.Service", the middle of Info.Path; empty if the path is malformed
	Details    ClientDetails
	Credential Credential
	Message    relay.Message // the first message, while a filter reads it
	Peeked     *Peeked       // fields of Message, until the call waits or has its answer; nil means not read
	Artifacts  Artifacts
	// Redeemed is the refusal of a call with an idempotency key whose approval is already redeemed, perhaps by an
	// earlier call with the key.
	Redeemed *call.Refusal
	Waits    any             // state of the wait at a filter, which the filter owns; nil if the call does not wait
	Pin      affinity.Answer // backend of the session or artifact
	Route    Route

	answer Answer
	more   []byte // memory of the strings that do not fit into Call.words
}

// Artifacts lists the artifacts that a call names.
type Artifacts struct {
	IDs    []string
	Unread bool // IDs are not known yet because the message takes long to read; only Bound depends on them
}

// Route restricts the backends that pick may choose.
type Route struct {
	Tried    *router.Tried   // backends where earlier attempts did not start, or were lost
	Directed *router.Backend // required backend; nil means pick decides
	Address  string          // required backend of the gateway's own call; empty means pick decides
}
