// Package forward is the last filter of a call to a backend: it writes what the backend alone is to see (the client's
// address, the trace, the path in its dialect), counts the call as in flight, and has the response say how the tool has
// ended and which artifacts there are. It never picks the backend.
package forward
