package cli

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// program admits a program, as capgate login requests, and returns its credential.
func (v *visitor) program(base string) string {
	v.Helper()
	const verifier = "a verifier of a test, which is long enough"
	sum := sha256.Sum256([]byte(verifier))
	form := url.Values{"port": {"0"}, "challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "state": {"AAAA"},
		"csrf_token": {v.csrf}}
	resp, err := v.PostForm(base+"/cli", form)
	check.Must(v.T, err)
	defer resp.Body.Close()
	var page strings.Builder
	check.Must(v.T, resp.Write(&page))
	_, rest, _ := strings.Cut(page.String(), `<code class="secret">`)
	code, _, ok := strings.Cut(rest, "</code>")
	if !ok {
		v.Fatal(page.String())
	}
	body, err := json.Marshal(map[string]string{"code": code, "verifier": verifier})
	check.Must(v.T, err)
	var issued struct{ Credential string }
	check.Must(v.T, json.Unmarshal([]byte(v.want(http.MethodPost, base+"/cli/token", string(body), 200, "")), &issued))
	if !strings.HasPrefix(issued.Credential, operator.SessionPrefix) {
		v.Fatal(issued)
	}
	return issued.Credential
}

// TestStreamsEndWithTheirSession: streams of a cookie and of a program's credential end at every replica when
// the session is revoked, and when the person's roles change.
func TestStreamsEndWithTheirSession(t *testing.T) {
	t.Parallel()
	r := startPeople(t, "")
	root, ann := newVisitor(t, r.issuer), newVisitor(t, r.issuer)
	r.put(t, "{issuer: corp, group: ops, roles: [admin]}, {issuer: corp, user: ann, roles: [viewer]}", r.ofKey)
	for n := range r.p {
		r.p[n].signal(t, syscall.SIGHUP)
		r.p[n].stderr.wait(t, r.p[n], `"msg":"configuration loaded"`)
	}
	r.issuer.Person(t, map[string]any{"sub": "root", "groups": []string{"ops"}})
	root.signIn(r.admin[0])
	r.issuer.Person(t, map[string]any{"sub": "ann"})
	begin := func() (ended []<-chan struct{}) {
		ann.signIn(r.admin[0])
		credential := ann.program(r.admin[0])
		for n, admin := range r.admin {
			for _, path := range []string{"/v1/approvals/events", "/v1/calls/events"} {
				for _, ann.bearer = range []string{"", credential} {
					ended = append(ended, ann.events(admin+path))
				}
			}
			conn, err := clienttest.NewConn("passthrough:///"+strings.TrimPrefix(r.admin[n], "http://"),
				grpc.WithTransportCredentials(insecure.NewCredentials()))
			check.Must(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+credential)
			stream, err := capgatepb.NewApprovalsClient(conn).WatchApprovals(ctx, &capgatepb.WatchApprovalsRequest{})
			check.Must(t, err)
			_, err = stream.Recv()
			check.Must(t, err)
			over := make(chan struct{})
			go func() {
				defer close(over)
				for err == nil {
					_, err = stream.Recv()
				}
			}()
			ended = append(ended, over)
		}
		return ended
	}
	all := begin()
	root.want("POST", r.admin[0]+"/v1/sessions:revoke", `{"name":"ann, issuer corp"}`, 200, "{}")
	for _, ended := range all {
		check.Received(t, ended, "the end of a stream after the revocation")
	}
	all = begin()
	r.put(t, "{issuer: corp, group: ops, roles: [admin]}, {issuer: corp, user: ann, roles: [viewer], tenant: globex}",
		r.ofKey)
	for n := range r.p {
		r.p[n].signal(t, syscall.SIGHUP)
	}
	for _, ended := range all {
		check.Received(t, ended, "the end of a stream after the reload")
	}
}
