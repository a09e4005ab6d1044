package approvals_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy/approvals"
)

// TestTheSchemaSaysWhatIsMasked: if the schema of a tool is known, names in the arguments mask nothing. A value that
// the schema marks as a secret is masked, whatever it is, and so is a text that can only be a key.
func TestTheSchemaSaysWhatIsMasked(t *testing.T) {
	t.Parallel()
	s, err := toolschema.Compile([]byte(`{"properties":{"pin":{"writeOnly":true},"list":{"items":{"format":"password"}},
		"deep":{"properties":{"key":{"format":"password","type":"string"}}},"password":{"type":"string"}}}`))
	check.Must(t, err)
	for encrypted, keys := range map[string][][]byte{"stored": nil, "encrypted": {[]byte(strings.Repeat("k", 32))}} {
		k := newKeeper(t, &memory{}, approvals.Options{Keys: keys,
			Secrets: func(_, tool string, _ toolschema.Hash) *toolschema.Secrets {
				if tool != "send" {
					return nil
				}
				return s.Secrets()
			}})
		for _, c := range []struct{ args, want string }{
			{`{"pin":1234}`, `"pin": [masked: 1 to 8 characters, by the tool's schema, a number]`},
			{`{"pin":{"a":["rm -rf /"]}}`, `[masked: 1 to 8 characters, with spaces, by the tool's schema]`},
			{`{"list":["a b"]}`, `[masked: 1 to 8 characters, with spaces, by the tool's schema]`},
			{`{"deep":{"key":"x"}}`, `"key": [masked: 1 to 8 characters, by the tool's schema]`},
			{`{"password":"hunter2"}`, `"password": "hunter2"`},
			{`{"auth":"hunter2hunter2"}`, `"auth": "hunter2hunter2"`},
			{`{"name":"token","value":"hunter2hunter2"}`, `"value": "hunter2hunter2"`},
			{`["--token","hunter2hunter2"]`, `"hunter2hunter2"`},
			{`{"x":"deploy --token=run1now; reboot"}`, `"deploy --token=run1now; reboot"`},
			{`{"x":"https://user:pass1@host/x"}`, `"https://user:pass1@host/x"`},
			{`{"x":"Authorization: Bearer run1now"}`, `Bearer run1now`},
			{`{"x":"{\"password\":\"hunter2\"}"}`, `\"password\": \"hunter2\"`},
			{`{"x":"a sk-hunter2hunter2"}`, `"a [masked: 9 to 32 characters, by what it looks like]"`},
		} {
			if got := ask(t, k, request(c.args)).Preview; !strings.Contains(got, c.want) {
				t.Errorf("%s, %s: no %s in\n%s", encrypted, c.args, c.want, got)
			}
		}
	}
}
