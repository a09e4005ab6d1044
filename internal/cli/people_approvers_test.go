package cli

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/testkit/browsertest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// ofSeveral is a person who approves for acme by claims, and for globex by a role.
const ofSeveral = "{issuer: corp, user: dan, roles: [approver], tenant: globex}"

// asked makes a call with a tenant's key that waits for approval. No other test calls with the same arguments,
// whose approval may have been answered.
func (r *peopleRig) asked(t *testing.T, key string) (id string) {
	t.Helper()
	arguments := fmt.Sprintf(`{"of":%q}`, t.Name())
	_, err := invokeAs(t, dial(t, r.public[0]), "carol", arguments, "authorization", "Bearer "+key)
	if id = clienttest.Metadata(err, "approval"); id == "" {
		t.Fatal(err)
	}
	return id
}

// reload gives both replicas people with roles.
func (r *peopleRig) reload(t *testing.T, people string) {
	t.Helper()
	r.put(t, "{issuer: corp, group: ops, roles: [admin]}, "+people, r.keys)
	for _, p := range r.p {
		p.signal(t, syscall.SIGHUP)
		p.stderr.wait(t, p, `"msg":"configuration loaded"`)
	}
}

// TestApproversOfSeveralTenants: a person who approves for several tenants sees exactly their approvals together in the
// inbox, including live updates.
func TestApproversOfSeveralTenants(t *testing.T) {
	t.Parallel()
	r := startPeople(t, "")
	r.reload(t, ofSeveral)
	r.issuer.Person(t, map[string]any{"sub": "dan", "scope": "approve read"})
	dan := newVisitor(t, r.issuer)
	dan.signIn(r.inbox[0])
	dan.want("GET", r.inbox[1]+"/v1/me", "", 200, `"tenant":"","roles":["approver"],"all_roles":[],"tenants":`+
		`[{"tenant":"acme","roles":["approver"]},{"tenant":"globex","roles":["approver"]}]`)
	lines := dan.follow(r.inbox[1] + "/v1/approvals/events?tenant=-")
	foreign, own, other := r.asked(t, r.others["initech"]), r.asked(t, r.key), r.asked(t, r.others["globex"])
	for heard := 0; heard < 2; {
		line := check.Received(t, lines, "an event")
		if strings.Contains(line, foreign) {
			t.Fatal("an event of another tenant:", line)
		}
		if strings.Contains(line, own) || strings.Contains(line, other) {
			heard++
		}
	}
	for query, ids := range map[string][]string{"": {own, other}, "?tenant=-": {own, other}, "?tenant=acme": {own},
		"?tenant=globex": {other}} {
		text := dan.want("GET", r.inbox[0]+"/v1/approvals"+query, "", 200, "")
		for _, id := range []string{own, other} {
			if strings.Contains(text, `"id":"`+id) != strings.Contains(strings.Join(ids, " "), id) {
				t.Errorf("%s: %s", query, text)
			}
		}
		if strings.Contains(text, foreign) {
			t.Errorf("%s has an approval of another tenant: %s", query, text)
		}
	}
	for _, path := range []string{"/v1/approvals", "/v1/approvals/events", "/v1/approvals/" + foreign} {
		dan.want("GET", r.inbox[0]+path+"?tenant=initech", "", 403,
			"you may not answer approvals of the tenant initech: you may answer those of acme, globex")
	}
	dan.want("GET", r.inbox[0]+"/v1/approvals/"+foreign, "", 404, "APPROVAL_UNKNOWN")
	for _, body := range []string{`{}`, `{"tenant":"initech"}`, `{"tenant":"-"}`, `{"tenant":"globex"}`} {
		dan.want("POST", r.inbox[0]+"/v1/approvals/"+foreign+"/approve", body, 404, "APPROVAL_UNKNOWN")
	}
	dan.want("POST", r.inbox[0]+"/v1/approvals/"+other+"/approve", `{"tenant":"acme"}`, 404, "APPROVAL_UNKNOWN")
	dan.want("POST", r.inbox[0]+"/v1/approvals/"+other+"/approve", `{"remember":"always"}`, 403, "SCOPE_MISSING")
	dan.want("POST", r.inbox[0]+"/v1/approvals/"+other+"/approve", `{"tenant":"globex"}`, 200, `"state":"approved"`)
	dan.want("POST", r.inbox[0]+"/v1/approvals/"+own+"/deny", `{}`, 200, `"state":"denied"`)
	dan.all(r, foreign)
}

// all: with the role for all tenants, a person sees the approvals of all, and earlier streams end.
func (v *visitor) all(r *peopleRig, foreign string) {
	v.Helper()
	ended := v.events(r.inbox[0] + "/v1/approvals/events")
	r.reload(v.T, "{issuer: corp, user: dan, roles: [admin]}")
	check.Received(v.T, ended, "the end of the stream of a person with other roles")
	v.want("GET", r.inbox[0]+"/v1/me", "", 200, `"all_roles":["approver","admin"]`)
	v.want("GET", r.inbox[0]+"/v1/approvals", "", 200, foreign)
	v.want("GET", r.inbox[0]+"/v1/approvals?tenant=absent", "", 403, "of the tenant absent: the tenant does not exist")
	v.want("POST", r.inbox[0]+"/v1/approvals/"+foreign+"/approve", `{"remember":"always"}`, 200, `"remember":"always"`)
}

// follow returns the lines of a stream of events, once it has started.
func (v *visitor) follow(address string) <-chan string {
	v.Helper()
	ctx, cancel := context.WithCancel(v.Context())
	v.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	check.Must(v.T, err)
	req.Header.Set("Accept", "text/event-stream")
	lasting := v.Client
	lasting.Timeout = 0
	resp, err := lasting.Do(req)
	check.Must(v.T, err)
	v.Cleanup(func() { _ = resp.Body.Close() })
	lines := make(chan string, 1000)
	scan := bufio.NewScanner(resp.Body)
	if !scan.Scan() {
		v.Fatalf("no event begins: %d", resp.StatusCode)
	}
	go func() { // ends with the request
		for scan.Scan() {
			lines <- scan.Text()
		}
	}()
	return lines
}

// approvesForTwoTenants: the inbox of a person with two tenants names the tenant of each approval. Links to
// both work, also after another tenant was chosen, and a link to a third tenant's approval explains why it does
// not.
func approvesForTwoTenants(t *testing.T, b *browsertest.Browser, r *peopleRig) {
	r.reload(t, ofSeveral)
	own, other, foreign := r.asked(t, r.key), r.asked(t, r.others["globex"]), r.asked(t, r.others["initech"])
	var saw struct {
		Cards                                []string
		Choices                              string
		Chosen, Denied, Approved, Live, Away string
		Found                                []string
	}
	b.Run(t, "tenants", seen{"origins": []string{"http://" + r.public[0], r.issuer.URL}, "own": own, "other": other,
		"foreign": foreign, "public": "http://" + r.public[0], "key": r.others["globex"]}, &saw)
	if len(saw.Cards) != 2 || !strings.Contains(saw.Cards[0], "acme") || !strings.Contains(saw.Cards[1], "globex") ||
		saw.Choices != "All your tenants acme globex" || saw.Chosen != own {
		t.Errorf("%+v", saw)
	}
	if !strings.Contains(saw.Denied, "Denied by dan") || !strings.Contains(saw.Approved, "Approved by dan") ||
		!strings.Contains(saw.Live, "globex") || len(saw.Found) > 0 {
		t.Errorf("got %+v", saw)
	}
	if !strings.Contains(saw.Away, "It belongs to another tenant") ||
		!strings.Contains(saw.Away, "of the tenant initech: you may answer those of acme, globex") {
		t.Errorf("got %+v", saw)
	}
}
