package checks_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/checks"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	"github.com/capgate/capgate/router"
)

func reason(r *call.Refusal) string {
	if r == nil {
		return ""
	}
	return r.Reason
}

func TestWellFormed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*filter.Call, *filtertest.Stream)
		reason string
		always bool // applies to methods with any encoding, too
	}{
		"good": {func(*filter.Call, *filtertest.Stream) {}, "", true},
		"no method": {func(c *filter.Call, _ *filtertest.Stream) {
			c.Service = ""
		}, "METHOD_UNKNOWN", true},
		"a repeated header": {func(_ *filter.Call, s *filtertest.Stream) { s.Twice = "te" }, "AMBIGUOUS_HEADERS", true},
		"another encoding": {func(_ *filter.Call, s *filtertest.Stream) {
			s.Protobuf = false
		}, "CONTENT_TYPE_UNSUPPORTED",
			false},
		"two capabilities": {func(_ *filter.Call, s *filtertest.Stream) {
			s.Fields[filter.CapabilityHeader] = []string{"a", "b"}
		}, "ROUTING_KEY_CONFLICT", true},
	} {
		c, s := filtertest.NewCall()
		c.Service = "pkg.Service"
		test.change(c, s)
		if got := reason(checks.WellFormed(c)); got != test.reason {
			t.Errorf("%s: %q", name, got)
		}
		if got := reason(checks.WellFormedAny(c)); test.always != (got == test.reason) {
			t.Errorf("%s, with any encoding: %q", name, got)
		}
	}
}

func TestSession(t *testing.T) {
	t.Parallel()
	fleet := filtertest.Fleet(router.FleetConfig{
		Backends: router.Addrs("a:1"), Affinity: router.Affinity{Sessions: true},
	})
	for name, test := range map[string]struct {
		message string
		headers []string
		session string
		reason  string
	}{
		"message":      {"s1", nil, "s1", ""},
		"header":       {"", []string{filter.SessionHeader, "s1"}, "s1", ""},
		"both":         {"s1", []string{filter.SessionHeader, "s1"}, "s1", ""},
		"another":      {"s1", []string{filter.SessionHeader, "s2"}, "s1", "SESSION_CONFLICT"},
		"header twice": {"", []string{filter.SessionHeader, "s1", filter.SessionHeader, "s2"}, "", "SESSION_CONFLICT"},
		"too long":     {string(make([]byte, 513)), nil, string(make([]byte, 513)), "SESSION_INVALID"},
	} {
		c, _ := filtertest.NewCall(test.headers...)
		c.Fleet, c.Info.Session = fleet, test.message
		if got := reason(checks.Session(c)); got != test.reason || c.Info.Session != test.session {
			t.Errorf("%s: %q, session %q", name, got, c.Info.Session)
		}
	}
}

func TestRestrict(t *testing.T) {
	t.Parallel()
	c, s := filtertest.NewCall(filter.SessionHeader, "mine")
	c.Fleet = filtertest.Fleet(router.FleetConfig{Capability: "files", Backends: router.Addrs("a:1")})
	c.Credential.Only = &tenant.Download{Capability: "files", Artifact: "f1", Session: "signed"}
	c.SetPeeked(&filter.Peeked{Artifact: []byte("f2")})
	if reason(checks.Restrict(c)) == "" {
		t.Error("another artifact may be had")
	}
	c.SetPeeked(&filter.Peeked{Artifact: []byte("f1")})
	if r := checks.Restrict(c); r != nil || s.Fields[filter.SessionHeader][0] != "signed" {
		t.Errorf("%q, %v", reason(r), s.Fields)
	}
	c.Credential.Only.Session = "" // a URL without a session removes the session of the call
	if r := checks.Restrict(c); r != nil || len(s.Fields[filter.SessionHeader]) > 0 {
		t.Errorf("%q, %v", reason(r), s.Fields)
	}
	c.Fleet = filtertest.Fleet(router.FleetConfig{Capability: "mail", Backends: router.Addrs("a:1")})
	if reason(checks.Restrict(c)) == "" {
		t.Error("another capability may be asked")
	}
}

// TestArtifacts: a call may name only artifacts of its tenant. Their ids are read from the message.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	c, _ := filtertest.NewCall()
	c.Fleet, c.Info.Method = filtertest.Fleet(router.FleetConfig{Backends: router.Addrs("a:1")}),
		call.DownloadOutputArtifact
	c.Principal.Settings = &tenant.Settings{ID: "acme"}
	c.SetPeeked(&filter.Peeked{Artifact: []byte("f1")})
	if r := checks.Artifacts(c); r != nil || len(c.Artifacts.IDs) != 1 || c.Artifacts.IDs[0] != "f1" {
		t.Errorf("%q, %v", reason(r), c.Artifacts)
	}
}

// The client's deadline applies, up to the fleet's.
func Example() {
	c, s := filtertest.NewCall("grpc-timeout", "250m")
	c.Info.Method = call.Invoke
	c.Fleet = filtertest.Fleet(router.FleetConfig{Backends: router.Addrs("a:1")})
	checks.Deadline(c)
	fmt.Println(s.Deadline == 250*time.Millisecond, c.Deadline)
	// Output: true 250ms
}
