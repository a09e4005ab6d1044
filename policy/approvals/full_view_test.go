package approvals_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
)

// TestApproversCanSeeTheWholeCall: the view of one approval has all arguments, including those in nested JSON text,
// with and without a key. A list has an excerpt, and marks it as such.
func TestApproversCanSeeTheWholeCall(t *testing.T) {
	t.Parallel()
	const last = "PS: the account is DE00 1234"
	mail := strings.Repeat("words of a mail. ", 40) + last
	inner, err := json.Marshal(map[string]string{"body": mail})
	check.Must(t, err)
	for name, of := range map[string]map[string]any{
		"a mail":       {"to": "bob", "body": mail},
		"JSON in text": {"arguments_json": string(inner)},
		"a long name":  {strings.Repeat("n", 600) + last: 1},
		"many": {"list": strings.Split(strings.TrimSuffix(strings.Repeat("entry,", 3000), ","), ","),
			"z": last},
		"large": {"text": strings.Repeat("word ", 40_000) + last},
	} {
		for _, keys := range [][][]byte{nil, {key(1)}} {
			name := fmt.Sprintf("%s, %d keys", name, len(keys))
			store := &memory{}
			k := newKeeper(t, store, approvals.Options{Keys: keys})
			args, err := json.Marshal(of)
			check.Must(t, err)
			a := ask(t, k, request(string(args)))
			got, err := k.Get(t.Context(), a.Tenant, a.ID)
			if err != nil || !strings.Contains(got.Preview, last) || !strings.Contains(got.Value, last) ||
				got.Excerpt || !got.Seen() || !json.Valid([]byte(got.Value)) {
				t.Errorf("%s: %v, %d bytes, excerpt %v, seen %v", name, err, len(got.Preview), got.Excerpt, got.Seen())
			}
			page, _, err := k.List(t.Context(), a.Tenant, approvals.Filter{}, "", 10)
			check.Must(t, err)
			if listed := page[0]; len(listed.Preview) > 9<<10 || !listed.Seen() ||
				listed.Excerpt == strings.Contains(listed.Preview, last) {
				t.Errorf("%s: a list has %d bytes, excerpt %v, seen %v", name, len(listed.Preview), listed.Excerpt,
					listed.Seen())
			}
			if _, err := k.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestUnseenCallsAreNotApproved: a call whose arguments cannot be shown completely can only be denied.
func TestUnseenCallsAreNotApproved(t *testing.T) {
	t.Parallel()
	long := `{"body":"` + strings.Repeat("b ", 20_000) + `"}`
	for name, test := range map[string]struct {
		asked, answered approvals.Options
		args            string
	}{
		"too long, with a key": {approvals.Options{Keys: [][]byte{key(1)}, MaxArgs: 1000},
			approvals.Options{Keys: [][]byte{key(1)}, MaxArgs: 1000}, long},
		"too long, without a key": {approvals.Options{MaxArgs: 1000}, approvals.Options{MaxArgs: 1000}, long},
		"stored by another limit": {approvals.Options{MaxArgs: 1000}, approvals.Options{}, long},
		"without the key":         {approvals.Options{Keys: [][]byte{key(1)}}, approvals.Options{}, `{"a":1}`},
		"with another key": {approvals.Options{Keys: [][]byte{key(1)}}, approvals.Options{Keys: [][]byte{key(2)}},
			`{"a":1}`},
	} {
		store := &memory{}
		a := ask(t, newKeeper(t, store, test.asked), request(test.args))
		k := newKeeper(t, store, test.answered)
		if got, err := k.Get(t.Context(), a.Tenant, a.ID); err != nil || got.Seen() {
			t.Errorf("%s: %v, seen %v", name, err, got.Seen())
		}
		for _, remember := range []approvals.Remember{approvals.ThisCall, approvals.Always} {
			_, err := k.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{Remember: remember})
			if reason(err) != "APPROVAL_NOT_SHOWN" {
				t.Errorf("%s, remember %v: %v", name, remember, err)
			}
		}
		if got, err := k.Deny(t.Context(), a.Tenant, a.ID, approvals.Answer{}); err != nil ||
			got.State != approvals.Denied {
			t.Errorf("%s: denied %v, %v", name, got.State, err)
		}
	}
}
