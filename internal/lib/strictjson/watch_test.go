package strictjson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestWatchInStrings: the name is found in JSON of four strings one in the other, also if it is written with escapes. A
// text in which it is deeper is rejected.
func TestWatchInStrings(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"the_id", `the\u005fid`, `\u0074\u0068e_I\u0044`} {
		for _, escapes := range []*strings.Replacer{
			strings.NewReplacer(), strings.NewReplacer(`\\`, `\u005c`, "f", `\u0066`),
		} {
			text := `{"` + name + `":"a"}`
			for level := 1; level <= 8; level++ {
				quoted, err := json.Marshal(text)
				check.Must(t, err)
				text = `{"x":` + escapes.Replace(string(quoted)) + `}`
				assertWatched(t, text, level <= 4)
			}
		}
	}
}

// assertWatched looks whether the name the_id is found once in a text, or else the text is rejected.
func assertWatched(t *testing.T, text string, want bool) {
	t.Helper()
	found := 0
	w := strictjson.NewWatch("the_id", func([]byte) { found++ })
	r := strictjson.Get()
	defer r.Release()
	err := r.Read([]byte(text), strictjson.Options{Watch: w})
	if want && (err != nil || found != 1) || !want && err == nil {
		t.Errorf("%s: found %d times, %v", text, found, err)
	}
}
