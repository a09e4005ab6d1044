package untrusted_test

import (
	"testing"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

// TestTexts: untrusted texts move no cursor, those of one line start no new line, and truncated ones end with a whole
// character.
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
		"clipped":        {untrusted.Clip("größe", 3), "gr…"},
		"not clipped":    {untrusted.Clip("größe", 7), "größe"},
		"repaired":       {untrusted.Clip("a\xff\xffb", 9), "a�b"},
		"cut":            {untrusted.Cut("größe", 4), "grö"},
		"long repair":    {untrusted.Cut("a\xffb\xff", 4), "a�"},
		"cut emoji":      {untrusted.Cut("ab😀", 5), "ab"},
		"no characters":  {untrusted.Truncate("\x80\x80\x80\x80\x80\x80", 5), "\x80"},
		"none":           {untrusted.Truncate("\x80\x80\x80\x80", 2), ""},
		"bytes":          {string(untrusted.Truncate([]byte("größe"), 3)), "gr"},
		"visible":        {untrusted.Visible("a\rb\n"), "a�b\n"},
	} {
		if test.got != test.want {
			t.Errorf("%s: %q, want %q", name, test.got, test.want)
		}
	}
}
