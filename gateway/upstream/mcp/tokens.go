package mcp

import (
	"io"
	"net/http"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/gateway/upstream/oauth"
	"github.com/capgate/capgate/internal/call"
)

// authenticate makes the requests to the server have access tokens, if the fleet has them.
func (v *server) authenticate() {
	if v.settings.OAuth == nil {
		return
	}
	c := oauth.Config{Settings: v.settings.OAuth, Server: v.url}
	c.Credential, _ = v.fleet.Content.(oauth.Credential)
	if v.all.Login != nil {
		c.Login = v.all.Login(v.fleet.Capability, v.url)
	}
	v.transport.authenticate(c)
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
