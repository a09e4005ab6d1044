package config_test

import (
	"testing"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestPublicURLs: a URL has one form, however it is written.
func TestPublicURLs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://tools.example.com":             "https://tools.example.com",
		"HTTPS://Tools.Example.COM":             "https://tools.example.com",
		"https://tools.example.com/":            "https://tools.example.com",
		"https://tools.example.com//":           "https://tools.example.com",
		"https://tools.example.com:443":         "https://tools.example.com",
		"https://tools.example.com:":            "https://tools.example.com",
		"http://tools.example.com:80/x/":        "http://tools.example.com/x",
		"http://tools.example.com:443":          "http://tools.example.com:443",
		"https://tools.example.com:8443//a//B/": "https://tools.example.com:8443/a/B",
		"https://[2001:DB8::1]:443/a%2Fb":       "https://[2001:db8::1]/a%2Fb",
	} {
		cfg, err := config.Parse("f", []byte("public_url: '"+text+"'\nadmin_url: '"+text+
			"'\nfleets: [{capability: a, backends: [127.0.0.1:1]}]\n"))
		check.Must(t, err)
		if cfg.PublicURL != want || cfg.AdminURL != want {
			t.Errorf("%s: %q, %q", text, cfg.PublicURL, cfg.AdminURL)
		}
	}
	for _, text := range []string{"https://:443", "https:///x", "https://u@h", "https://h?q", "https://h#f"} {
		if _, err := config.Parse("f", []byte("public_url: '"+text+"'\n")); err == nil {
			t.Errorf("%s is a URL", text)
		}
	}
}
