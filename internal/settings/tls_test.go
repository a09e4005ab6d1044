package settings_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestSessionsOfReplicas: with secret_file the ports for callers resume sessions of other replicas. A reload of
// unchanged files keeps the sessions of a port, also if listeners have another order; a new secret or certificate ends
// them.
func TestSessionsOfReplicas(t *testing.T) {
	t.Parallel()
	dir, authority := t.TempDir(), certtest.New(t)
	write := func(name, text string) { check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	renew := func() {
		cert, key := certtest.PEMOf(t, authority.Server(t))
		write("cert", cert)
		write("key", key)
	}
	renew()
	write("secret", strings.Repeat("ab", 32))
	port := "tls: {cert_file: '" + dir + "/cert', key_file: '" + dir + "/key'}"
	withListeners := func(ports ...string) string {
		text := port + "\nlisteners:\n"
		for _, p := range ports {
			text += "- {address: '127.0.0.1:" + p + "', " + port + "}\n"
		}
		return text
	}
	secret := "secret_file: '" + dir + "/secret'\n"
	read := func(text string, before *settings.Settings) *settings.Settings {
		s, err := settings.WithFiles(parse(t, text), settings.Files{}, before)
		check.Must(t, err)
		return s
	}
	// resumes reports whether the ports of b resume sessions of a: the public one, and the one at 127.0.0.1:7.
	resumes := func(a, b *settings.Settings) (public, listener bool) {
		client := authority.Visitor()
		certtest.Visit(t, a.ServerTLS, client)
		public = certtest.Visit(t, b.ServerTLS, client)
		client = authority.Visitor()
		certtest.Visit(t, a.ListenerTLS[a.Listener("127.0.0.1:7")], client)
		return public, certtest.Visit(t, b.ListenerTLS[b.Listener("127.0.0.1:7")], client)
	}
	text, swapped := withListeners("7", "8"), withListeners("8", "7")
	alone := read(text, nil)
	shared := read(text+secret, alone)
	more := []struct {
		name string
		a, b *settings.Settings
		want bool
	}{
		{"no secret", alone, read(text, nil), false},
		{"an unchanged file", alone, read(text, alone), true},
		{"another order", alone, read(swapped, alone), true},
		{"a secret", shared, read(text+secret, nil), true},
	}
	write("secret", strings.Repeat("cd", 32))
	changed := read(text+secret, shared)
	renew()
	more = append(more, []struct {
		name string
		a, b *settings.Settings
		want bool
	}{
		{"a new secret", shared, changed, false},
		{"a new certificate", changed, read(text+secret, changed), false},
		{"a new certificate without a secret", alone, read(text, alone), false},
	}...)
	for _, test := range more {
		if public, listener := resumes(test.a, test.b); public != test.want || listener != test.want {
			t.Errorf("%s: resumed %v, %v, want %v", test.name, public, listener, test.want)
		}
	}
}
