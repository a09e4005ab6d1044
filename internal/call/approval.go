package call

import "time"

// Approval is an approval that a call waits for, as the front door of the call needs to know it.
type Approval struct {
	ID      string
	Link    string    // address of the page that answers it; "" if there is none
	Expires time.Time // end of the time to answer; zero: unknown
	Pending bool      // it is not answered yet
}

// Asking describes how the front door of a call handles its approval. The zero value leaves all to the metadata of the
// call.
type Asking struct {
	// Asked is called once, beside the relay, if the call needs an approval. It returns how long the call waits for
	// the answer, and may block until the call ends. If nil, the metadata of the call sets the wait.
	Asked func(Approval) (wait time.Duration)
	// Toolset is the name of the toolset that describes an earlier version of the tool to the client; empty means none.
	// With a name, the call needs an approval if it would be allowed.
	Toolset string
	// Impossible means that the call is refused if it needs an approval: it is not repeated with one.
	Impossible bool
}
