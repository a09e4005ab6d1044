package questions

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/url"
	"sync"
)

// Metadata is the metadata of a call with the id of its Call. An id is not guessable, so that a value of a client
// names none.
const Metadata = "x-mcp-questions"

// Call is a call of a tool whose client answers questions, or requests log messages; or a subscription to a resource.
type Call struct {
	Kinds Kinds // questions that the client has declared to answer
	// Own reports whether a URL leads to the gateway itself; nil means that none does.
	Own func(u *url.URL) bool
	// Answers are those with which the client repeats an earlier call (2026-07-28, Multi Round-Trip Requests).
	Answers Answers
	// Ask sends a question to the client, and returns the JSON of the result, which is an object. The error is
	// *Refused if the client responded with an error. If Ask is nil, the questions are the result of the call, and the
	// client repeats it.
	Ask func(ctx context.Context, q *Question) (json.RawMessage, error)
	// Log receives the params of each log message of the server during the call, of Level and above. It may block for a
	// client that reads slowly. If Log is nil, the client requests none.
	Log   func(ctx context.Context, params json.RawMessage)
	Level Level
	// Follower receives the updates of the resource to which the call subscribes, after the call as well. If nil, the
	// call only finds out whether the server accepts the subscription.
	Follower *Follower
}

// Answers are the members of a repeated call.
type Answers struct {
	State     string          // requestState of the server; empty means none
	Responses json.RawMessage // inputResponses, an object; nil means none
}

// Refused is the error with which a client responds to a question.
type Refused struct {
	Code    int64
	Message string
}

// Error implements error.
func (r *Refused) Error() string { return r.Message }

// Calls holds the calls in progress. It is safe for concurrent use. Its size is bounded by the number of calls. A nil
// Calls has none.
type Calls struct {
	mu  sync.Mutex
	all map[string]*Call
}

// New returns Calls without a call.
func New() *Calls { return &Calls{all: map[string]*Call{}} }

// Add adds a call, and returns the value of its metadata. The caller must call remove when the call has ended.
func (c *Calls) Add(call *Call) (id string, remove func()) {
	id = rand.Text()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[id] = call
	return id, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, id)
	}
}

// Of returns the call with an id; nil means that its client answers no questions.
func (c *Calls) Of(id string) *Call {
	if c == nil || id == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[id]
}
