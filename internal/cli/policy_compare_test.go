package cli

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// TestComparePolicies: the preview of candidate rules lists the calls whose decisions would change, once each
// with their number, and nothing once the candidate is in effect.
func TestComparePolicies(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	_, public, admin := serve(t, nil, "--config", writeConfig(t, configOf("policies: {}", backend)))
	client := dial(t, public)
	for _, user := range []string{"ann", "ann", "bob"} {
		_, err := invokeAs(t, client, user, "{}")
		check.Must(t, err)
	}
	compared := func(what string, want func(*capgatepb.ComparePoliciesResponse) bool) {
		t.Helper()
		check.Until(t, what, func() (bool, string) {
			status, text := page(t, "http://"+admin+"/v1/policies:compare")
			var got capgatepb.ComparePoliciesResponse
			if status != http.StatusOK || protojson.Unmarshal([]byte(text), &got) != nil {
				return false, fmt.Sprint(status, text)
			}
			return want(&got), text
		})
	}
	compared("the calls without candidates", func(r *capgatepb.ComparePoliciesResponse) bool {
		return r.GetCompared() == 2 && !r.GetCandidates() && len(r.GetChanges()) == 0
	})
	set := func(more ...string) {
		t.Helper()
		args := append([]string{"set", "caps", gatewaytest.Echo, "ask", "--user", "ann"}, more...)
		if exit, out, errs := capgatePolicy(t, admin, args...); exit != 0 {
			t.Fatalf("%s: %d %s%s", strings.Join(args, " "), exit, out, errs)
		}
	}
	set("--candidate")
	compared("what the candidate would change", func(r *capgatepb.ComparePoliciesResponse) bool {
		if r.GetCompared() != 2 || !r.GetCandidates() || len(r.GetChanges()) != 1 || r.GetTruncated() {
			return false
		}
		c := r.GetChanges()[0]
		return c.GetUser() == "ann" && c.GetCapability() == "caps" && c.GetTool() == gatewaytest.Echo &&
			c.GetCalls() == 2 && c.GetPolicy() == "allow" && c.GetLevel() == "fleet" &&
			c.GetCandidatePolicy() == "ask" && c.GetCandidateLevel() == "user"
	})
	set()
	compared("nothing that would change", func(r *capgatepb.ComparePoliciesResponse) bool {
		return len(r.GetChanges()) == 0
	})
}
