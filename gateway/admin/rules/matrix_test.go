package rules_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// matrix requests all pages of a matrix, and returns its cells.
func (p *port) matrix(t *testing.T, query string) (cells []string, last *capgatepb.ListDecisionsResponse) {
	t.Helper()
	for token := ""; ; token = last.GetNextPageToken() {
		status, text := p.Ask(t, "GET", "/v1/policies:matrix?"+query+"&page_token="+url.QueryEscape(token), "")
		last = new(capgatepb.ListDecisionsResponse)
		if check.Must(t, protojson.Unmarshal([]byte(text), last)); status != 200 {
			t.Fatal(status, text)
		}
		for _, d := range last.GetDecisions() {
			cells = append(cells, fmt.Sprintf("%s %s/%s %s %s %t", d.GetTool(), d.GetUser(), d.GetAgent(),
				d.GetPolicy(), d.GetLevel(), d.GetUnlisted()))
		}
		if last.GetNextPageToken() == "" {
			return cells, last
		}
	}
}

// TestMatrixIsWhatExplainSays: each cell has the policy and the level that ExplainPolicy returns for it.
func TestMatrixIsWhatExplainSays(t *testing.T) {
	t.Parallel()
	b := &book{}
	p := serve(t, b)
	for _, r := range []policy.Rule{
		{Name: policy.Name{Capability: policy.Any, Tool: "drop"}, Verdict: call.Block},
		{Tenant: "default", Name: policy.Name{Capability: "weather", Tool: "get"}, Verdict: call.Ask},
		{Tenant: "default", Name: policy.Name{User: "ann", Capability: "weather", Tool: "*"}, Verdict: call.Allow},
		{Tenant: "default", Name: policy.Name{Agent: "bot", Capability: "*", Tool: "*"}, Verdict: call.Block},
		{Tenant: "default", Name: policy.Name{User: "ann", Agent: "bot", Capability: "weather", Tool: "drop"},
			Verdict: call.Allow},
		{Tenant: "default", Name: policy.Name{User: "bob", Capability: "mail", Tool: "*"}, Verdict: call.Allow},
		{Tenant: "other", Name: policy.Name{User: "eve", Capability: "weather", Tool: "*"}, Verdict: call.Allow},
	} {
		check.Must(t, b.Set(t.Context(), r))
	}
	cells, last := p.matrix(t, "capability=weather&page_size=1")
	if len(cells) != int(last.GetCallers()*last.GetTools()) || last.GetCallers() != 4 || last.GetTools() < 2 ||
		last.GetCallersOmitted() {
		t.Fatalf("%d cells: %q\n%v", len(cells), cells, last)
	}
	all := strings.Join(cells, "; ")
	for _, name := range []string{"eve", "bob"} {
		if strings.Contains(all, name) {
			t.Errorf("%s is in %s", name, all)
		}
	}
	for _, cell := range cells {
		words := strings.Fields(cell)
		user, agent, _ := strings.Cut(words[1], "/")
		status, text := p.Ask(t, "GET", "/v1/policies:explain?"+url.Values{"capability": {"weather"}, "force": {"true"},
			"tool": {words[0]}, "user": {user}, "agent": {agent}}.Encode(), "")
		explained := new(capgatepb.ExplainPolicyResponse)
		check.Must(t, protojson.Unmarshal([]byte(text), explained))
		if status != 200 || explained.GetPolicy() != words[2] || explained.GetLevel() != words[3] {
			t.Errorf("%s: explained as %s of %s", cell, explained.GetPolicy(), explained.GetLevel())
		}
	}
	for query, want := range map[string]int{"query=DRO": 4, "query=nothing": 0, "caller=ann": 3 * int(last.GetTools()),
		"caller=ann+bot": 2 * int(last.GetTools())} {
		if found, _ := p.matrix(t, "capability=weather&"+query); len(found) != want {
			t.Errorf("%s: %d cells: %q", query, len(found), found)
		}
	}
}

// TestMatrixHasABound: a matrix has at most 50 callers, says so, and finds the others by name.
func TestMatrixHasABound(t *testing.T) {
	t.Parallel()
	b := &book{}
	p := serve(t, b)
	for i := range 70 {
		check.Must(t, b.Set(t.Context(), policy.Rule{Tenant: "default", Name: policy.Name{User: fmt.Sprintf("u%02d", i),
			Capability: "weather", Tool: "*"}, Verdict: call.Allow}))
	}
	if _, last := p.matrix(t, "capability=weather"); last.GetCallers() != 50 || !last.GetCallersOmitted() {
		t.Errorf("%d callers, omitted %t", last.GetCallers(), last.GetCallersOmitted())
	}
	if cells, last := p.matrix(t, "capability=weather&caller=u69"); last.GetCallers() != 2 || last.GetCallersOmitted() {
		t.Errorf("%q", cells)
	}
}
