package web

import (
	"net/http"
	"strings"

	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/gateway/relay"
)

// stream is the stream of an HTTP/2 request. It implements authenticate.Headers.
type stream struct{ *relay.Stream }

// Header returns a header. Only signed URLs have a signature.
func (s stream) Header(name string) (string, bool) {
	if name == authenticate.SignatureHeader {
		return "", false
	}
	return s.Stream.Header(name)
}

// DropHeader does nothing: the front doors receive all headers.
func (stream) DropHeader(string) {}

// credentials gives access to the headers of a request that identify its caller. It implements authenticate.Headers.
type credentials Request

// Header returns a header as in the calls of the request. Only signed URLs have a signature.
func (c *credentials) Header(name string) (string, bool) {
	if name == authenticate.SignatureHeader {
		return "", false
	}
	return fields(c.r.Header).Header(name)
}

// Contradicts reports whether a header of the call has different values.
func (c *credentials) Contradicts(name string) bool {
	_, present := c.Header(name)
	return present && fields(c.r.Header).Contradicts(name)
}

// DropHeader does nothing: the call has its own headers.
func (*credentials) DropHeader(string) {}

// fields gives access to the headers of a request, by names in lower case.
type fields http.Header

// Header returns the first value of a header.
func (f fields) Header(name string) (string, bool) {
	v := f[header.Key(name)]
	if len(v) == 0 {
		return "", false
	}
	return v[0], true
}

// AppendHeader appends all values of a header.
func (f fields) AppendHeader(b []byte, name string) []byte {
	return append(b, strings.Join(http.Header(f).Values(name), ",")...)
}

// Contradicts reports whether a header has different values.
func (f fields) Contradicts(name string) bool {
	values := f[header.Key(name)]
	for _, v := range values {
		if v != values[0] {
			return true
		}
	}
	return false
}
