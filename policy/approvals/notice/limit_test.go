package notice_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/capgate/capgate/policy/approvals/notice"
)

// TestNoticeOfALimit: each format names the tenant and the quota that is nearly used up, and has no link.
func TestNoticeOfALimit(t *testing.T) {
	t.Parallel()
	n := notice.OfLimit(&notice.Limit{Tenant: "acme", Limit: "per_day",
		Text: "a user of acme has used 85% of its 20 calls a day for mail",
		Per:  "user", Capability: "mail", Period: "2026-11-29", Used: 17, Max: 20})
	if n.Link != "" || n.Arguments != "" {
		t.Errorf("%+v", n)
	}
	slack, err := notice.Slack(&n)
	noError(t, err)
	teams, err := notice.Teams(&n)
	noError(t, err)
	mail, err := notice.Mail(&n, envelope())
	noError(t, err)
	seen := map[string]string{"Slack": textsOf(t, slack), "Teams": textsOf(t, teams),
		"mail": strings.ReplaceAll(string(mail), "=\r\n", "")} // joins wrapped lines
	for format, text := range seen {
		for _, want := range []string{"A tenant is near a limit", "acme", "85%", "per_day", "user", "mail",
			"2026-11-29", "17 of 20"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in %s", format, want, text)
			}
		}
		if strings.Contains(text, "https://capgate") || strings.Contains(text, "Review") {
			t.Errorf("%s has a link: %s", format, text)
		}
	}
}

// textsOf returns the strings of a JSON document.
func textsOf(t *testing.T, document []byte) string {
	t.Helper()
	var all []string
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case string:
			all = append(all, v)
		case []any:
			for _, e := range v {
				visit(e)
			}
		case map[string]any:
			for _, e := range v {
				visit(e)
			}
		}
	}
	var v any
	noError(t, json.Unmarshal(document, &v))
	visit(v)
	return strings.Join(all, "\n")
}
