package plainjson_test

import (
	"testing"

	"github.com/capgate/capgate/internal/lib/plainjson"
)

// TestMarshal holds what all JSON of the gateway has in common: one line, no escapes for HTML, and no end of the line.
func TestMarshal(t *testing.T) {
	t.Parallel()
	got, err := plainjson.Marshal(map[string]any{"a": "<b>&\u2028\n", "c": []int{1}})
	if want := `{"a":"<b>&\u2028\n","c":[1]}`; err != nil || string(got) != want {
		t.Errorf("%s %v, want %s", got, err, want)
	}
	got, err = plainjson.Append([]byte("x="), "<")
	if err != nil || string(got) != `x="<"` {
		t.Errorf("%s %v", got, err)
	}
	if got, err := plainjson.Append([]byte("x="), func() {}); err == nil || string(got) != "x=" {
		t.Errorf("a value without JSON: %q %v", got, err)
	}
	got, err = plainjson.Indent(map[string]string{"a": "<"})
	if want := "{\n  \"a\": \"<\"\n}\n"; err != nil || string(got) != want {
		t.Errorf("%q %v, want %q", got, err, want)
	}
}
