package mcp

import (
	"errors"
	"io"
	"net/http"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/gateway/upstream/oauth"
	"github.com/capgate/capgate/internal/call"
)

// authenticate returns the transport that adds access tokens; nil means that the fleet has none.
func (v *server) authenticate() *oauth.Transport {
	if v.settings.OAuth == nil {
		return nil
	}
	c := oauth.Config{Settings: v.settings.OAuth, Server: v.url, Host: v.transport.host,
		Base: v.transport.base.Transport}
	c.Credential, _ = v.fleet.Content.(oauth.Credential)
	if v.all.Login != nil {
		c.Login = v.all.Login(v.fleet.Capability, v.url)
	}
	return oauth.New(c)
}

// roundTrip sends a request that has all headers but the access token. If there is no token that the server accepts, it
// returns a response with HTTP 401 and the reason, see note.
func (t *transport) roundTrip(r *http.Request) (*http.Response, error) {
	if t.tokens == nil {
		return t.base.Transport.RoundTrip(r)
	}
	resp, err := t.tokens.RoundTrip(r)
	if failed, is := errors.AsType[*oauth.Error](err); is {
		return &http.Response{StatusCode: http.StatusUnauthorized, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
			Body: unauthorized{http.NoBody, failed}, Request: r}, nil
	}
	return resp, err
}

// unauthorized is the body of a response in place of one of the server, which accepts no token of the gateway.
type unauthorized struct {
	io.ReadCloser
	why *oauth.Error
}

// secrets returns the headers whose values must be in no text.
func (t *transport) secrets() http.Header {
	all := t.header
	if t.tokens != nil {
		all = all.Clone()
		all.Add("Authorization", t.tokens.Token())
	}
	return all
}

// noToken continues the status of the response.
const noToken = ", because it requires an access token and accepts none of the gateway's"

// errUnauthorized returns the error of a call at a server that accepts no token of the gateway; nil means that its last
// response was another one.
func (w *responseNote) errUnauthorized() error {
	if w == nil {
		return nil
	}
	note := w.note.Load()
	if note == nil || !note.unauthorized {
		return nil
	}
	return status.Error(&call.Refusal{Kind: call.FailedPrecondition, Reason: "MCP_SERVER_UNAUTHORIZED",
		Message: "the MCP server requires an access token, and accepts none of the gateway's; capgate status has the " +
			"reason"}, call.NotSent)
}
