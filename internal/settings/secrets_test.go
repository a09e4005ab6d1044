package settings_test

import (
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestReadSecrets: secrets in any encoding; errors have the line of an invalid secret, but not the secret.
func TestReadSecrets(t *testing.T) {
	t.Parallel()
	key := []byte("0123456789abcdef0123456789abcde\xff")
	for name, test := range map[string]struct {
		text string
		keys int
		err  string // the end of it
	}{
		"base64":      {base64.StdEncoding.EncodeToString(key) + "\n", 1, ""},
		"no padding":  {base64.RawStdEncoding.EncodeToString(key), 1, ""},
		"for URLs":    {base64.URLEncoding.EncodeToString(key), 1, ""},
		"hex":         {hex.EncodeToString(key) + "\r\n\n", 1, ""},
		"several":     {hex.EncodeToString(key) + "\n\n" + base64.StdEncoding.EncodeToString(key), 2, ""},
		"too short":   {hex.EncodeToString(key) + "\n" + hex.EncodeToString(key[:31]), 0, ":2: not a secret"},
		"too long":    {base64.StdEncoding.EncodeToString(append(key, 1)), 0, ":1: not a secret"},
		"a word":      {"\n\nhunter2", 0, ":3: not a secret"},
		"nothing":     {" \n", 0, " contains no secret"},
		"no UTF-8":    {"\xff\xfe", 0, ":1: not a secret"},
		"not there":   {"", 0, ": cannot be read"},
		"several bad": {"hunter2\nhunter3", 0, ":1: not a secret"},
	} {
		file, files := filepath.Join(t.TempDir(), "keys"), settings.Files{}
		if name != "not there" {
			check.Must(t, os.WriteFile(file, []byte(test.text), 0o600))
		}
		keys, err := settings.ReadSecrets(file, files)
		if len(keys) != test.keys || (err == nil) != (test.err == "") ||
			err != nil && !strings.Contains(err.Error(), file+test.err) {
			t.Errorf("%s: %d keys, %v", name, len(keys), err)
		}
		for _, k := range keys {
			if string(k) != string(key) {
				t.Errorf("%s: another key", name)
			}
		}
		if err != nil && strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %v", name, err)
		}
		if _, read := files[file]; !read {
			t.Errorf("%s: is not watched", name)
		}
	}
}
