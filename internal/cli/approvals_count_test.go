package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// countRig is a gateway at which each call requires the approval of two people.
type countRig struct {
	*testing.T
	public, admin string
}

// post makes a request with a credential, as a user.
func (r countRig) post(address, credential, user, body string) string {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, address, strings.NewReader(body))
	check.Must(r.T, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+credential)
	if user != "" {
		req.Header.Set("X-User-Id", user)
	}
	resp, err := http.DefaultClient.Do(req)
	check.Must(r.T, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check.Must(r.T, err)
	return string(text)
}

// minted creates an API key with a credential.
func (r countRig) minted(by, path string) string {
	r.Helper()
	body := `{"scopes":["read","approve","admin"],"asserts":["user"]}`
	if path != "" {
		body = "{}"
	}
	text := r.post("http://"+r.public+"/v1/tenants/-/keys"+path, by, "", body)
	var made struct{ Credential string }
	if json.Unmarshal([]byte(text), &made) != nil || made.Credential == "" {
		r.Fatal(text)
	}
	return made.Credential
}

// TestACredentialCountsOnce: if several people must approve, these do not count as another person: the same
// credential with another user, a key that it created, the key that created it, one that replaced it, and one
// that was created after the call.
func TestACredentialCountsOnce(t *testing.T) {
	t.Parallel()
	issuer := issuertest.Start(t)
	caller, ofCaller := makeKey(t, "--asserts", "user")
	ann, ofAnn := makeKey(t, "--asserts", "user", "--scopes", "read,approve,admin")
	bob, ofBob := makeKey(t, "--asserts", "user", "--scopes", "read,approve,admin")
	config := writeConfig(t, strings.Replace(
		configOf("identity: {store: redis}\npolicies: {}\napprovals: {rules: [{answers: 2}]}\ntenants: [{id: acme, "+
			"capabilities: ['*'], keys: ["+ofCaller+", "+ofAnn+", "+ofBob+"]}]\nissuers: [{name: corp, issuer: '"+
			issuer.URL+"', audiences: [capgate], ca_file: "+issuer.CAFile+
			", asserts: [user], claims: {scopes: scope}}]\n"+patientRedis(redistest.Start(t).URL()),
			gatewaytest.NewCapability("first").Serve(t, call.Doc).Addr),
		"policy: allow", "policy: ask", 1))
	_, public, admin := serve(t, nil, "--config", config)
	r := countRig{t, public, admin}
	child := r.minted(ann, "")
	grandchild, sibling := r.minted(child, ""), r.minted(ann, "")
	rotated := r.minted(sibling, "/"+strings.Split(sibling, "_")[1]+":rotate")
	token := issuer.Token(t, map[string]any{"sub": "dan", "tenant": "acme", "scope": "approve read"})
	other := issuer.Token(t, map[string]any{"sub": "eve", "tenant": "acme", "scope": "approve read"})
	const counted = "CREDENTIAL_COUNTED"
	late := func() string { return r.minted(bob, "") }
	for name, test := range map[string]struct {
		first, user  string
		second, next string
		made         func() string
		want         string
	}{
		"two keys":                     {first: ann, user: "u1", second: bob, next: "u2", want: `"state":"approved"`},
		"two keys of one user":         {first: ann, user: "u1", second: bob, next: "u1", want: "ALREADY_ANSWERED"},
		"a key as two users":           {first: ann, user: "u1", second: ann, next: "u2", want: counted},
		"a key with and without":       {first: ann, second: ann, next: "u2", want: counted},
		"a key that it made":           {first: ann, user: "u1", second: child, next: "u2", want: counted},
		"a key that made it":           {first: child, user: "u1", second: ann, next: "u2", want: counted},
		"a key of a key that it made":  {first: ann, second: grandchild, want: counted},
		"a key that replaced it":       {first: sibling, second: rotated, want: counted},
		"a key made after the call":    {first: ann, made: late, want: "CREDENTIAL_TOO_NEW"},
		"two tokens":                   {first: token, second: other, want: `"state":"approved"`},
		"a token as another user":      {first: token, second: token, next: "u2", want: counted},
		"a token, the other way round": {first: token, user: "u2", second: token, want: counted},
		"a user that a token asserts":  {first: token, user: "eve", second: other, want: "ALREADY_ANSWERED"},
		"tokens as other users": {first: token, user: "u1", second: other, next: "u2",
			want: `"state":"approved"`},
		"a key and a token": {first: ann, user: "u1", second: token, want: `"state":"approved"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := r
			r.T = t
			_, err := invokeAs(t, dial(t, public), "carol", `{"of":"`+name+`"}`, "authorization", "Bearer "+caller)
			id := clienttest.Metadata(err, "approval")
			if id == "" {
				t.Fatal(err)
			}
			address := "http://" + public + "/v1/approvals/" + id + "/approve"
			if text := r.post(address, test.first, test.user, "{}"); !strings.Contains(text, `"state":"pending"`) {
				t.Fatal(text)
			}
			if test.made != nil {
				test.second = test.made()
			}
			if text := r.post(address, test.second, test.next, "{}"); !strings.Contains(text, test.want) {
				t.Errorf("%s, want %s", text, test.want)
			}
		})
	}
}
