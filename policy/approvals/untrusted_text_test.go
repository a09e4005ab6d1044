package approvals_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
)

// TestASecretAtTheEnd: where a text is cut off, no part of a secret that begins before the end is shown.
func TestASecretAtTheEnd(t *testing.T) {
	t.Parallel()
	const secret = "Zq7pXw3Lm9Kd2Vb8Ny4T"
	for _, form := range []string{"ghp_" + secret, "Bearer " + secret, "password=" + secret, "my password is " + secret,
		"postgres://ann:" + secret + "@db/x"} {
		for name, lead := range map[string]struct {
			text string
			ends []int // byte offsets where the shown or searched text ends
		}{
			"words":          {"one ", []int{512, 4096}},
			"a long secret":  {"eyJhbGciOiJIUzI1NiJ9.", []int{4096}}, // short mask: the text after it is shown
			"without spaces": {"one,", []int{512, 4096}},
		} {
			for _, end := range lead.ends {
				for begin := end - len(form) - 2; begin < end+2; begin += 3 {
					text := strings.Repeat(lead.text, begin/len(lead.text)+1)[:begin-1] + " " + form + " and so on"
					if name == "a long secret" {
						text = lead.text + strings.Repeat("a", begin-1-len(lead.text)) + " " + form + " and so on"
					}
					got := preview(t, `"`+text+`"`)
					for n := 5; n <= len(secret); n++ {
						if strings.Contains(got, secret[:n]) {
							t.Fatalf("%s, %s at %d: %d bytes of the secret are shown", form, name, begin, n)
						}
					}
				}
			}
		}
	}
}

// TestTextsOfOthers: texts of callers, tools and backends other than arguments are shown without characters that hide
// or reorder text, and are bounded. So are the approver's name and comment.
func TestTextsOfOthers(t *testing.T) {
	t.Parallel()
	const hostile = "a\u202eb\u2066c\u200bd\x1b[2Je\x00f\u0085g\xffh\r"
	store := &memory{}
	k := newKeeper(t, store, approvals.Options{})
	r := request(`{}`)
	r.Description, r.Why, r.RequestID, r.Trace = hostile, hostile, hostile, hostile
	a := ask(t, k, r)
	a, err := k.Deny(t.Context(), a.Tenant, a.ID, approvals.Answer{By: hostile, Comment: hostile})
	check.Must(t, err)
	for name, text := range map[string]string{
		"description": a.Description, "why": a.Why, "request": a.RequestID, "trace": a.Trace, "by": a.By,
		"comment": a.Comment,
	} {
		if !strings.HasPrefix(text, "a\ufffdb\ufffdc") {
			t.Errorf("%s: %q", name, text)
		}
		if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%s: %q", name, text)
		}
	}
	long := strings.Repeat("ä", 1<<16)
	b := request(`{"b":1}`)
	b.Description, b.Why = long, long
	shown := ask(t, k, b)
	if len(shown.Description) > 5<<10 || len(shown.Why) > 5<<10 || !strings.HasPrefix(long, shown.Why) {
		t.Errorf("%d and %d bytes", len(shown.Description), len(shown.Why))
	}
	full, err := k.Deny(t.Context(), b.Tenant, shown.ID, approvals.Answer{By: strings.Repeat("\x00", 1<<10)})
	if err != nil || len(full.By) > 1<<10 {
		t.Errorf("the approver's name has %d bytes, %v", len(full.By), err)
	}
}
