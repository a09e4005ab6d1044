package notice_test

import (
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/notice"
)

// TestChangedToolsAreShown: in every format, the notice of a call of a changed tool shows the change, and marks a long
// one as truncated.
func TestChangedToolsAreShown(t *testing.T) {
	t.Parallel()
	const first = "it has changed since its version was accepted:"
	for name, test := range map[string]struct{ change, seen string }{
		"short": {first + "\n+ Sends <it>.\n- Repeats it.", first + `\n+ Sends <it>.\n- Repeats it.`},
		"long":  {first + strings.Repeat("\n+ Sends it.", 500), "…"},
		"none":  {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := approvals.Approval{ID: "apr_1", Change: test.change, State: approvals.Pending, Link: link,
				Expires: time.Unix(1_700_000_000, 0)}
			a.Tenant, a.Capability, a.Tool = "acme", "mail", "send"
			n := notice.New(approvals.EventCreated, &a)
			body, err := notice.Slack(&n)
			formats := map[string][]string{"Slack": {checkSlack(t, body)}}
			noError(t, err)
			body, err = notice.Teams(&n)
			noError(t, err)
			formats["Teams"] = []string{checkTeams(t, body)}
			body, err = notice.Mail(&n, envelope())
			formats["mail"] = checkMail(t, body)
			for format, all := range formats {
				for _, seen := range all {
					check(t, format, err, test.seen, seen)
					if said := strings.Contains(seen, "Tool changed"); said != (test.change != "") ||
						strings.Contains(seen, first) != said {
						t.Errorf("%s: %s", format, seen)
					}
				}
			}
		})
	}
}

// noError fails the test if err is not nil.
func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
