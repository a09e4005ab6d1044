package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/browsertest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/oteltest"
)

// consoleKeys: a tenant and its keys are created, changed and removed in the console. Each key is shown once,
// and permits calls as long as it is valid.
func consoleKeys(t *testing.T, b *browsertest.Browser) {
	file := writeConfig(t, configOf("policies: {}\nidentity: {store: redis}\n"+patientRedis(""),
		gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr))
	_, public, admin := serve(t, nil, "--config", file)
	var saw struct {
		First, Second string   // keys
		Leaks         []string // of a key, after it was shown
		Made, Rotated []int    // of calls with the first and the second key
		Revoked       []int
		States        []string
		Audit         string
	}
	b.Run(t, "keys", seen{"origins": []string{"http://" + admin}, "public": "http://" + public}, &saw)
	key := regexp.MustCompile(`^cg_[a-z0-9]+_\S{20,}$`)
	if !key.MatchString(saw.First) || !key.MatchString(saw.Second) || saw.First == saw.Second || len(saw.Leaks) > 0 {
		t.Errorf("%d and %d bytes, leaks %q", len(saw.First), len(saw.Second), saw.Leaks)
	}
	if !slices.Equal(saw.Made, []int{200}) || !slices.Equal(saw.Rotated, []int{401, 200}) ||
		!slices.Equal(saw.Revoked, []int{401, 401}) {
		t.Errorf("the keys answer %v, %v, %v", saw.Made, saw.Rotated, saw.Revoked)
	}
	slices.Sort(saw.States)
	if fmt.Sprint(saw.States) != "[expired revoked]" {
		t.Errorf("got %q", saw.States)
	}
	for _, what := range []string{"tenant.made", "key.made", "key.rotated", "key.revoked"} {
		if !strings.Contains(saw.Audit, what) {
			t.Errorf("the changes lack %s: %s", what, saw.Audit)
		}
	}
}

// consoleCalls: a call links to its trace, at the configured URL, and to the policy that decided it.
func consoleCalls(t *testing.T, b *browsertest.Browser) {
	collector := oteltest.Start(t)
	file := writeConfig(t, configOf("policies: {}\n"+patientRedis("")+"\ntraces: {endpoint: '"+collector.Addr+
		"', sample: 1, link: 'https://traces.example.com/t/{trace_id}?from=capgate'}",
		gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr))
	_, public, admin := serve(t, nil, "--config", file)
	var saw struct{ Trace, Opened, Opener, Policy, Decided string }
	b.Run(t, "calls", seen{"origins": []string{"http://" + admin, "https://traces.example.com"},
		"public": "http://" + public}, &saw)
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(saw.Trace) || saw.Opener != "null" ||
		saw.Opened != "https://traces.example.com/t/"+saw.Trace+"?from=capgate" {
		t.Errorf("the trace: %+v", saw)
	}
	ofCall := func(s *oteltest.Span) bool { return s.Trace == saw.Trace }
	if spans := collector.Spans(t, 2); !slices.ContainsFunc(spans, ofCall) {
		t.Errorf("none of %d spans has the trace", len(spans))
	}
	if !strings.Contains(saw.Policy, "user=ann") || !strings.Contains(saw.Policy, "tool=echo") ||
		!strings.Contains(saw.Decided, "policy of the fleet") || !strings.Contains(saw.Decided, "allow") {
		t.Errorf("the policy: %+v", saw)
	}
}

// consoleStreams: the first part of a stream is shown while its tool holds the second, in the playground and in
// the page of callers.
func consoleStreams(t *testing.T, b *browsertest.Browser) {
	var fleets []string
	release := map[string]func(){}
	for _, name := range []string{"played", "documented"} {
		c := gatewaytest.NewCapability(name)
		release[name] = c.Release
		manifest := filepath.Join(t.TempDir(), name+".yaml")
		check.Must(t, os.WriteFile(manifest, []byte("id: "+name+"\nimage: i\ntools: [{name: hold, description: d, "+
			"input_schema: {type: object}, recommended_policy: allow}]\n"), 0o600))
		fleets = append(fleets, fmt.Sprintf("{capability: %s, policy: allow, manifest: %q, backends: ['%s']}", name,
			manifest, c.Serve(t, call.Doc).Addr))
	}
	file := writeConfig(t, "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ndrain: {delay: 0s}\npolicies: {}\n"+
		patientRedis("")+"\nfleets: ["+strings.Join(fleets, ", ")+"]\n")
	_, public, admin := serve(t, nil, "--config", file)
	var saw map[string]struct{ First, State, Whole, End string }
	b.Run(t, "streams", seen{"origins": []string{"http://" + admin, "http://" + public},
		"control": control(t, release)}, &saw)
	for name, s := range saw {
		if s.First == "" || len(s.Whole) <= len(s.First) || !strings.HasPrefix(s.Whole, s.First) || s.State == s.End {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if len(saw) != 2 || saw["played"].State != "streaming" || saw["played"].End != "done" ||
		saw["played"].Whole != `{"word": "the first half, the second half"}` ||
		saw["documented"].State != "streaming" || saw["documented"].End != "200: the stream has ended" {
		t.Errorf("got %+v", saw)
	}
}
