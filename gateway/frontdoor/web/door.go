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
	// Protocol returns the protocol of a request for this door, for the access log.
	Protocol(*http.Request) call.Protocol
	// Headers is called once, before the door serves.
	Headers() header.Door
	// Timeout returns the timeout that a request sets for its call. A malformed timeout is ignored.
	Timeout(*http.Request) (time.Duration, bool)
	http.Handler
}

// SignIn is a door for people with sessions. Credentials in headers are ignored there.
type SignIn interface {
	Door
	// Identify looks up the session of a request, and calls Authenticated for its person. It sets Request.Person,
	// except for requests that need no caller.
	Identify(*http.Request)
}
