package web

import (
	"net/http"
	"strings"

	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/gateway/relay"
)

// stream is a stream of a request over HTTP/2. It implements authenticate.Headers.
type stream struct{ *relay.Stream }

// Header returns a header. Only signed URLs have a signature.
func (s stream) Header(name string) (string, bool) {
	if name == authenticate.SignatureHeader {
		return "", false
	}
	return s.Stream.Header(name)
}

// DropHeader drops nothing: the front doors get the whole request.
func (stream) DropHeader(string) {}

// credentials are the headers of a request that tell its caller. It implements authenticate.Headers.
type credentials Request

// Header returns a header as the calls of the request have it. Only signed URLs have a signature.
func (c *credentials) Header(name string) (string, bool) {
	if name == authenticate.SignatureHeader {
		return "", false
	}
	return fields(c.r.Header).Header(name)
}

// Contradicts reports whether a header that the call has has different values.
func (c *credentials) Contradicts(name string) bool {
	_, present := c.Header(name)
	return present && fields(c.r.Header).Contradicts(name)
}

// DropHeader drops nothing: the call that the request becomes has its own headers.
func (*credentials) DropHeader(string) {}

// fields are the headers of a request, by names in lower case.
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
