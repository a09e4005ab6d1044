package cli

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// TestLostRulesBlock: after Redis has lost its data, no replica permits a call that a rule blocked: neither one
// that knew the rule, nor one that starts later, nor after another rule is set. An operator accepts the loss,
// or restores the rules.
func TestLostRulesBlock(t *testing.T) {
	t.Parallel()
	redis, capability := redistest.Start(t), gatewaytest.NewCapability("first")
	file := writeConfig(t, configOf("policies: {}\nredis: {url: '"+redis.URL()+"', timeout: 5s}",
		capability.Serve(t, call.Doc).Addr))
	_, _, first := serve(t, nil, "--config", file)
	if exit, _, errs := capgatePolicy(t, first, "accept-loss"); exit != exitRefused ||
		!strings.Contains(errs, "RULES_NOT_LOST") {
		t.Errorf("nothing is lost: %d %s", exit, errs)
	}
	if exit, _, errs := capgatePolicy(t, first, "set", "caps", gatewaytest.Echo, "block"); exit != 0 {
		t.Fatal(errs)
	}
	old, public, admin := serve(t, nil, "--config", file) // ready when it has read that there are rules
	one := dial(t, public)
	until(t, one, "ann", gatewaytest.Echo, codes.PermissionDenied)

	redis.Do("FLUSHALL")
	const lost = "capgate policy accept-loss"
	old.stderr.wait(t, old, "redis has lost the rules")
	waitPage(t, "http://"+admin+"/readyz", lost)
	later, publicLater, adminLater := serve(t, nil, "--config", file)
	two := dial(t, publicLater)
	later.stderr.wait(t, later, "redis has lost the rules")
	if code, text := page(t, "http://"+adminLater+"/readyz"); code != http.StatusServiceUnavailable ||
		!strings.Contains(text, `"unread":["rules"]`) || !strings.Contains(text, lost) {
		t.Errorf("a replica that starts after the loss: %d %s", code, text)
	}
	decided := func(what string) {
		t.Helper()
		switch err := as(t, one, "ann", gatewaytest.Echo); status.Code(err) {
		case codes.PermissionDenied: // by a cached decision
		case codes.Unavailable: // the decision was cached shortly before the loss
		default:
			t.Errorf("%s, a replica that knew the rule: %v", what, err)
		}
		if err := as(t, one, "bob", gatewaytest.Echo); status.Code(err) != codes.Unavailable {
			t.Errorf("%s, not cached: %v", what, err)
		}
		if err := as(t, two, "ann", gatewaytest.Echo); status.Code(err) != codes.Unavailable {
			t.Errorf("%s, a replica that starts later: %v", what, err)
		}
		for _, a := range []string{admin, adminLater} {
			if _, text := page(t, "http://"+a+"/metrics"); metric(t, text, "capgate_policy_rules_lost") != 1 {
				t.Errorf("%s: the metric does not show it", what)
			}
		}
	}
	decided("lost")
	if exit, _, errs := capgatePolicy(t, admin, "set", "caps", "other", "allow", "--force"); exit != 0 {
		t.Fatal(errs)
	}
	decided("after another rule")

	if exit, out, errs := capgatePolicy(t, adminLater, "accept-loss"); exit != 0 ||
		!strings.HasPrefix(out, "accepted: ") {
		t.Fatalf("%d %s%s", exit, out, errs)
	}
	until(t, one, "ann", gatewaytest.Echo, codes.OK)
	until(t, two, "ann", gatewaytest.Echo, codes.OK)
	old.stderr.wait(t, old, "their loss accepted")
	if code, text := page(t, "http://"+adminLater+"/readyz"); code != http.StatusOK || strings.Contains(text, lost) {
		t.Errorf("accepted: %d %s", code, text)
	}
}
