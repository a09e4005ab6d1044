package strictjson_test

import (
	"cmp"
	"testing"

	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestAppendTo: the text of each kind of value is appended, with a string as a quoted one.
func TestAppendTo(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{`null`: ``, `false`: ``, `true`: ``, `-1.50e3`: ``,
		`""`: ``, `"\u00e4\u0022"`: `"ä\""`, `["\"]", {}]`: ``, `{"a":[1]}`: ``} {
		r := strictjson.Get()
		check.Must(t, r.Read([]byte(text), strictjson.Options{Keep: true}))
		if got := string(r.Root().AppendTo([]byte("x"))); got != "x"+cmp.Or(want, text) {
			t.Errorf("%s: got %s", text, got)
		}
		r.Release()
	}
}
