package untrusted_test

import (
	"testing"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

// TestTexts: texts of others move no cursor, and those of one line begin no other one.
func TestTexts(t *testing.T) {
	t.Parallel()
	const s = " red \x1b[31m\u202e\nsecond\tline\xff "
	for name, test := range map[string]struct{ got, want string }{
		"word":           {untrusted.Word(s), "red �[31m� second�line�"},
		"no word":        {untrusted.Word(" "), "-"},
		"lines":          {untrusted.Lines("a\nb", 2), "a\n  b"},
		"beginning":      {untrusted.Beginning(s, 4), "red …"},
		"short":          {untrusted.Beginning("red\nsecond", 40), "red second"},
		"line":           {untrusted.Line(s), "red [31m second line�"},
		"spaces of line": {untrusted.Line("\r\na\vb\n"), "a b"},
		"visible":        {untrusted.Visible("a\rb\n"), "a�b\n"},
	} {
		if test.got != test.want {
			t.Errorf("%s: %q, want %q", name, test.got, test.want)
		}
	}
}
