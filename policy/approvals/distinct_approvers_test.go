package approvals_test

import (
	"testing"
	"time"

	"github.com/capgate/capgate/policy/approvals"
)

// TestRelatedCredentials: if several people must approve, two approvers may not have the same name, and neither may
// have created the other's credential. Any denial counts.
func TestRelatedCredentials(t *testing.T) {
	t.Parallel()
	key := func(id string, makers ...string) approvals.Approver {
		return approvals.Approver{Key: "key " + id, Names: []string{"credential key " + id}, Makers: makers}
	}
	late := key("b")
	late.Created = time.Now().Add(time.Hour)
	for name, test := range map[string]struct {
		second approvals.Approver
		want   string
	}{
		"unrelated": {key("b", "user op"), ""},
		"the same":  {key("a"), "ALREADY_ANSWERED"},
		"another name of it": {approvals.Approver{User: "u", Names: []string{"credential key a"}},
			"CREDENTIAL_COUNTED"},
		"made by it": {key("b", "user op", "credential key a"), "CREDENTIAL_COUNTED"},
		"its maker": {approvals.Approver{User: "eve", Issuer: "corp", Names: []string{"user eve"}},
			"CREDENTIAL_COUNTED"},
		"made by anyone": {key("b", "*"), "CREDENTIAL_COUNTED"},
		"made later":     {late, "CREDENTIAL_TOO_NEW"},
	} {
		k := ruled(t, approvals.Options{}, approvals.AnswerRule{Answers: 2})
		a := ask(t, k, request("{}"))
		give := func(who approvals.Approver) error {
			_, err := k.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{Who: who})
			return err
		}
		if err := give(key("a", "user eve")); err != nil {
			t.Fatal(name, err)
		}
		if err := give(test.second); reason(err) != test.want {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if name == "the same" || test.want == "" {
			continue
		}
		if _, err := k.Deny(t.Context(), a.Tenant, a.ID, approvals.Answer{Who: test.second}); err != nil {
			t.Errorf("%s: a denial: %v", name, err)
		}
	}
}
