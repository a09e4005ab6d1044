package mcp

import (
	"io"
	"net/http"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/logins"
	"github.com/capgate/capgate/gateway/upstream/oauth"
	"github.com/capgate/capgate/internal/call"
)

// authenticate makes the requests to the server have access tokens, if the fleet has them.
func (v *server) authenticate() {
	v.leave = func() {}
	if v.settings.OAuth == nil {
		return
	}
	c := oauth.Config{Settings: v.settings.OAuth, Server: v.url}
	c.Credential, _ = v.fleet.Content.(oauth.Credential)
	login := v.all.Logins.Of(v.fleet.Capability)
	if login != nil {
		c.Login = login
	}
	v.transport.authenticate(c)
	if login != nil {
		v.leave = login.Follow(v.transport.tokens.Reset)
	}
}

// setLogins replaces the fleets that have logins.
func (s *Servers) setLogins(fleets []upstream.Fleet) {
	var all []logins.Fleet
	for i := range fleets {
		f := &fleets[i]
		of := settingsOf(f).OAuth
		if !of.NeedsLogin() || len(f.Backends) != 1 {
			continue
		}
		c, _ := f.Content.(oauth.Credential)
		all = append(all, logins.Fleet{Name: f.Capability, URL: f.Backends[0], Issuer: of.Issuer,
			ClientID: of.ClientID, Secret: c.Secret(), Scopes: of.Scopes})
	}
	s.Logins.Set(all)
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
		all["Authorization"] = append(all["Authorization"], t.tokens.Tokens()...)
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
