package cli

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/oauthtest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// TestCodesAreForTheIssuer: an MCP server whose authorization server borrows the authorization endpoint of the
// configured issuer gets no code at a token endpoint of its own. One that names another endpoint gets no browser.
func TestCodesAreForTheIssuer(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"borrowed": "is not the token endpoint of the configured issuer",
		"own":      "names another authorization server than the configured issuer",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			issuer := &oauthtest.Authority{}
			issuer.Start(t)
			other := &oauthtest.Authority{}
			other.Describe = func(of map[string]any) {
				of["client_id_metadata_document_supported"] = true
				if name == "borrowed" {
					of["authorization_endpoint"] = issuer.URL + "/authorize"
				}
			}
			other.Start(t)
			other.Resource = oauthtest.Serve(t, other.Protect(http.NotFoundHandler()))
			errs, printed := io.Pipe()
			followed := make(chan struct{})
			go func() {
				defer close(followed)
				consent(errs)
			}()
			c := &fleetsCommand{output: output{stdio: stdio{out: io.Discard, err: printed}}}
			_, err := c.authorize(t.Context(), &capgatepb.FleetLogin{Capability: "notes", Url: other.Resource,
				Issuer: issuer.URL, ClientId: "https://client.example.com/metadata.json"})
			check.Must(t, printed.Close())
			<-followed
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v", err)
			}
			if got := other.Requests(); len(got) > 0 {
				t.Errorf("the other authorization server got %v", got)
			}
		})
	}
}

// consent is a browser whose user consents: it calls the redirect URI of each printed URL with a code.
// Before, a page of another origin does so, which does not know the state.
func consent(printed io.Reader) {
	for lines := bufio.NewScanner(printed); lines.Scan(); {
		u, err := url.Parse(strings.TrimSpace(lines.Text()))
		if err != nil || u.Host == "" {
			continue
		}
		for _, state := range []string{"forged", u.Query().Get("state")} {
			with := url.Values{"code": {"c0de"}, "state": {state}}
			if resp, err := clienttest.HTTP.Get(u.Query().Get("redirect_uri") + "?" + with.Encode()); err == nil {
				_ = resp.Body.Close()
			}
		}
	}
}
