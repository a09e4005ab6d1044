package web

import (
	"net/http"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/internal/call"
)

// Door is a front door: a handler for the HTTP requests of one protocol.
type Door interface {
	// Match reports whether a request is for this door. Of has the request's client.
	Match(*http.Request) bool
	// Protocol returns the protocol of a request that is for this door, for the access log.
	Protocol(*http.Request) call.Protocol
	// Headers is called once, before the door serves.
	Headers() header.Door
	// Timeout returns the time that a request gives its call. A malformed one is not given.
	Timeout(*http.Request) (time.Duration, bool)
	http.Handler
}

// SignIn is a door whose callers are people with sessions. Credentials in headers do not count there.
type SignIn interface {
	Door
	// Identify finds the session of a request, and calls Authenticated for its person. It sets Request.Person, except
	// for requests that need no caller.
	Identify(*http.Request)
}
