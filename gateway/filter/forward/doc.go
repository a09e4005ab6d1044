// Package forward implements the last filter of a call to a backend: it writes the headers for the backend alone (the
// client's address, the trace, the path in its dialect, the assertion of the caller), counts the call as in flight, and
// reads the tool's outcome and artifacts from the response.
package forward
