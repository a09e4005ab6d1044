package cli

import (
	"regexp"
	"testing"
)

// TestPendingApprovalsAreMetered: metrics have the number and the age of each tenant's pending approvals.
func TestPendingApprovalsAreMetered(t *testing.T) {
	t.Parallel()
	w := startTenants(t)
	first := w.ask(t, "acme", `{"n":1}`)
	w.ask(t, "acme", `{"n":2}`)
	second := w.ask(t, "globex", `{"n":1}`)
	metrics := "http://" + w.admin + "/metrics"
	waitPage(t, metrics, `capgate_approvals_pending{tenant="acme"} 2`)
	body := waitPage(t, metrics, `capgate_approvals_pending{tenant="globex"} 1`)
	if !regexp.MustCompile(`capgate_approvals_pending_age_seconds\{tenant="globex"\} [0-9]`).MatchString(body) {
		t.Error(body)
	}
	w.run(t, 0, "approvals", "deny", first)
	w.run(t, 0, "approvals", "approve", second)
	waitPage(t, metrics, `capgate_approvals_pending{tenant="acme"} 1`)
	for regexp.MustCompile(`capgate_approvals_pending\{tenant="globex"\}`).MatchString(body) {
		_, body = page(t, metrics)
	}
}
