package web

import (
	"context"
	"net/http"

	"github.com/capgate/capgate/gateway/relay"
)

// Outlive makes the response outlive its handler, as relay.Outlive does, over both versions of HTTP. What the request
// holds is released at the end of the response. It returns nil for a request of the console, whose handler has to wait.
func (v *Request) Outlive(gone func()) (end func(aborted error)) {
	if v.lasts = v.results.owner != nil; !v.lasts { // the console's requests do not pass Server.Bodies
		return nil
	}
	if over := relay.Outlive(v.r.Context(), gone); over != nil {
		return func(aborted error) { v.results.end(); over(aborted) }
	}
	v.ended = make(chan struct{})
	stop := context.AfterFunc(v.r.Context(), gone)
	return func(aborted error) {
		stop()
		v.results.end()
		v.aborted = aborted
		close(v.ended)
	}
}

// release releases what the request holds, unless its response outlives the handler.
func (v *Request) release() {
	if !v.lasts {
		v.results.end()
	}
}

// await waits for the end of a response that outlives its handler over HTTP/1.1. net/http's server needs a goroutine
// for the response, which has little on its stack here.
func (v *Request) await() {
	if v.ended == nil {
		return
	}
	if <-v.ended; v.aborted != nil {
		panic(http.ErrAbortHandler)
	}
}
