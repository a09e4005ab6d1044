package oauth_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/upstream/oauth"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/oauthtest"
)

// TestServersOfOneHost: metadata for the server's path go before those for its host, which a challenge may name. With
// those for the host alone, tokens are for the host.
func TestServersOfOneHost(t *testing.T) {
	t.Parallel()
	const root, own = "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"
	for name, c := range map[string]struct {
		challenge string            // path of the metadata
		resources map[string]string // paths by the path of their metadata
		want      string
		wrong     bool
	}{
		"none":               {want: "/mcp"},
		"of the host":        {resources: map[string]string{root: ""}},
		"of both":            {resources: map[string]string{root: "", own: "/mcp"}, want: "/mcp"},
		"challenge, host":    {challenge: root, resources: map[string]string{root: ""}},
		"challenge, both":    {challenge: root, resources: map[string]string{root: "", own: "/mcp"}, want: "/mcp"},
		"host at both":       {challenge: root, resources: map[string]string{root: "", own: ""}},
		"host, and an error": {challenge: root, resources: map[string]string{root: "", own: "error"}},
		"challenge, path":    {challenge: "/m", resources: map[string]string{"/m": "/mcp"}, want: "/mcp"},
		"challenge, other":   {challenge: "/m", resources: map[string]string{"/m": ""}, wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := serve(t, &oauthtest.Authority{})
			host := strings.TrimSuffix(w.server, "/mcp")
			if c.challenge != "" {
				w.Challenge = `resource_metadata="` + host + c.challenge + `"`
			}
			s := settings(t, w.Authority)
			credential, err := s.Read(files{})
			check.Must(t, err)
			base := &http.Transport{}
			defer base.CloseIdleConnections()
			tr := oauth.New(oauth.Config{Settings: s, Credential: credential, Server: w.server,
				Base: roundTripper(func(r *http.Request) (*http.Response, error) {
					if r.Method != http.MethodGet {
						return base.RoundTrip(r)
					}
					path, exists := c.resources[r.URL.Path]
					resp := &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody, Request: r}
					switch {
					case path == "error":
						resp.StatusCode = http.StatusInternalServerError
					case exists:
						resp.StatusCode, resp.Body = http.StatusOK, io.NopCloser(strings.NewReader(
							`{"resource":"`+host+path+`","authorization_servers":["`+w.URL+`"]}`))
					}
					return resp, nil
				})})
			defer tr.Close()
			_, err = w.post(t, tr)
			got := ""
			if all := w.Requests(); len(all) > 0 {
				got = all[0].Get("resource")
			}
			if c.wrong != (err != nil) || !c.wrong && got != host+c.want {
				t.Errorf("a token for %q, %v", got, err)
			}
		})
	}
}
