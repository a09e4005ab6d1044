package approvals_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
)

// TestArgumentsForATable: arguments_json is JSON that decodes to the approver's view of the arguments: a secret is
// replaced by a mask with its reason, text that hides something or imitates a mask is escaped, and the field is empty
// if a part would be missing.
func TestArgumentsForATable(t *testing.T) {
	t.Parallel()
	many := make([]string, 2000)
	for i := range many {
		many[i] = "word"
	}
	list, err := json.Marshal(many)
	check.Must(t, err)
	long := strings.Repeat("n", 600)
	for name, test := range map[string]struct {
		args string
		want any // decoded; nil means that the field is empty
	}{
		"plain": {`{"to":"bob","n":1.5,"ok":true,"none":null,"list":["a",{}],"line":"a\nb\t\"c\\"}`,
			map[string]any{"to": "bob", "n": 1.5, "ok": true, "none": nil, "list": []any{"a", map[string]any{}},
				"line": "a\nb\t\"c\\"}},
		"no object": {`"text"`, "text"},
		"by name": {`{"password":"hunter2","to":"bob"}`, map[string]any{
			"password": "[masked: 1 to 8 characters, by its name]", "to": "bob"}},
		"a number": {`{"pin":1234}`, map[string]any{"pin": "[masked: 1 to 8 characters, by a name, a number]"}},
		"beside a name": {`["--password","hunter2hunter2"]`, []any{"--password",
			"[masked: 9 to 32 characters, by the name beside it]"}},
		"by its look": {`"https://user:pw@host/x"`,
			"https://user:[masked: 1 to 8 characters, by what it looks like]@host/x"},
		"nested":      {`{"auth":{"command":"x y"}}`, map[string]any{"auth": map[string]any{"command": "x y"}}},
		"bidi":        {`{"to":"a\u202eb\u2066"}`, map[string]any{"to": `a\u202eb\u2066`}},
		"bidi name":   {`{"t\u202eo":1}`, map[string]any{`t\u202eo`: 1.0}},
		"control":     {`{"to":"a\u0000\u001b[2J\u007f\u200b"}`, map[string]any{"to": `a\u0000\u001b[2J\u007f\u200b`}},
		"false mask":  {`{"to":"[masked: 1 to 8 characters, by its name]"}`, map[string]any{"to": falseMask}},
		"long string": {`{"to":"` + strings.Repeat("ä ", 400) + `"}`, map[string]any{"to": strings.Repeat("ä ", 400)}},
		"names alike": {`{"` + long + `a":1,"` + long + `b":2}`, map[string]any{long + "a": 1.0, long + "b": 2.0}},
		"long":        {string(list), nil},
	} {
		a := ask(t, newKeeper(t, &memory{}, approvals.Options{}), request(test.args))
		if test.want == nil {
			if a.Value != "" || a.Preview == "" {
				t.Errorf("%s: not omitted: %.200s", name, a.Value)
			}
			continue
		}
		var got any
		if err := json.Unmarshal([]byte(a.Value), &got); err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %s, want %v, %v", name, a.Value, test.want, err)
		}
	}
	// these are rejected, so nothing can be shown
	for _, args := range []string{`{"a":1,"a":2}`, `{"n":1` + strings.Repeat("0", 600) + `}`} {
		_, _, refusal := newKeeper(t, &memory{}, approvals.Options{}).Create(t.Context(), request(args))
		if refusal == nil || refusal.Reason != "AMBIGUOUS_ARGUMENTS" {
			t.Errorf("%.20s: %v", args, refusal)
		}
	}
}

const (
	falseMask = `\u005bmasked: 1 to 8 characters, by its name]`
)
