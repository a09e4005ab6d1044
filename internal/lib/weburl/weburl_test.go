package weburl_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/lib/weburl"
)

// TestURLs: errors do not repeat a URL, which may contain a secret.
func TestURLs(t *testing.T) {
	t.Parallel()
	const form, parts, bareParts = "is not an HTTP URL; write it whole, as in EXAMPLE",
		"must have neither a user nor a fragment", "must have neither a user, a query nor a fragment"
	for text, want := range map[string][2]string{ // errors of Parse and ParseBare
		"https://hooks.example.com/a": {},
		"HTTP://127.0.0.1:9":          {},
		"http://[::1]:9/a":            {},
		"http://h/?secret":            {"", bareParts},
		"http://h/?":                  {"", bareParts},
		"http://h/#secret":            {parts, bareParts},
		"http://u:secret@h/":          {parts, bareParts},
		"http://secret@h/":            {parts, bareParts},
		"":                            {form, form},
		"hooks/secret":                {form, form},
		"ftp://h/secret":              {form, form},
		"https:///secret":             {form, form},
		"https://:80/secret":          {form, form},
		"https:secret":                {form, form},
		"//h/secret":                  {form, form},
		"http://u:secret@%zz/":        {form, form},
		"http://h/\x00secret":         {form, form},
	} {
		u, err := weburl.Parse(text, "EXAMPLE")
		_, bare := weburl.ParseBare(text, "EXAMPLE")
		if got := [2]string{textOf(err), textOf(bare)}; got != want || (err == nil) == (u == nil) ||
			strings.Contains(got[0]+got[1], "secret") {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestIsCleartext: only this machine may be reached without TLS where a secret is sent.
func TestIsCleartext(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"https://hooks.example.com": false, "http://localhost:80": false, "http://LOCALHOST": false,
		"http://127.3.0.1:9": false, "http://[::1]": false, "http://[::ffff:127.0.0.1]": false,
		"http://hooks.example.com": true, "http://localhost.example.com": true, "http://10.0.0.1": true,
		"http://0.0.0.0": true, "http://127.0.0.1.example.com": true,
	} {
		u, err := weburl.Parse(text, "")
		if err != nil || weburl.IsCleartext(u) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}
