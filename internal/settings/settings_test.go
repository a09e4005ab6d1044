package settings_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
)

const fleets = "fleets: [{capability: a, backends: ['127.0.0.1:1']}]\n"

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("f", []byte(text+fleets))
	check.Must(t, err)
	return cfg
}

// TestOverrides: the command line and the environment change fields of the file, unless their value is empty. They do
// not open an admin API that the file closes.
func TestOverrides(t *testing.T) {
	t.Parallel()
	const operators = "tenants: []\noperators: {}\n"
	empty, yes := "", true
	listen, redis, level, bad := "127.0.0.1:7", "redis://h:1", "debug", "secret://x"
	for name, test := range map[string]struct {
		file string
		o    settings.Overrides
		err  string
		is   func(c *config.Config) bool
	}{
		"listen": {"", settings.Overrides{Listen: &listen, Admin: &empty}, "",
			func(c *config.Config) bool { return c.Listen == listen && c.Admin == "127.0.0.1:8081" }},
		"redis": {"", settings.Overrides{Redis: &redis, Level: &empty}, "",
			func(c *config.Config) bool { return c.Redis.URL == redis }},
		"level": {"", settings.Overrides{Level: &level}, "", func(c *config.Config) bool {
			return c.Log.Level < 0
		}},
		"insecure": {"", settings.Overrides{Insecure: &yes}, "", func(c *config.Config) bool {
			return c.Operators.Insecure
		}},
		"operators": {operators, settings.Overrides{Insecure: &yes}, "admin-insecure: operators in the configuration",
			nil},
		"no redis": {"", settings.Overrides{Redis: &bad}, "redis: the address has an unknown scheme", nil},
		"no level": {"", settings.Overrides{Level: &bad}, "log-level", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := parse(t, test.file)
			err := test.o.Apply(c)
			if test.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), test.err) {
					t.Errorf("%v, want %s", err, test.err)
				}
				return
			}
			if err != nil || !test.is(c) {
				t.Errorf("%v: %+v", err, c)
			}
		})
	}
}

// TestChangedFilesAreNoticed: also one that could not be read, and one of the same length.
func TestChangedFilesAreNoticed(t *testing.T) {
	t.Parallel()
	name, files := filepath.Join(t.TempDir(), "secret"), settings.Files{}
	if _, err := files.Read(name); err == nil {
		t.Error("a file that is not there was read")
	}
	for _, text := range []string{"one", "two"} {
		if now := files.Recheck(); !now.Equal(files) {
			t.Error("nothing has changed")
		}
		check.Must(t, os.WriteFile(name, []byte(text), 0o600))
		now := files.Recheck()
		if now.Equal(files) {
			t.Errorf("the content %s was not noticed", text)
		}
		files = now
	}
}

// TestPeppers: a pepper has a least length, and a hash in a file that was made with one needs it.
func TestPeppers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	short, hash := filepath.Join(dir, "pepper"), filepath.Join(dir, "hash")
	check.Must(t, os.WriteFile(short, []byte(strings.Repeat("a", tenant.MinPepper-1)+"\n"), 0o600))
	if _, err := settings.ReadPepper(short, settings.Files{}); err == nil ||
		!strings.Contains(err.Error(), "has fewer than") {
		t.Error(err)
	}
	check.Must(t, os.WriteFile(hash, []byte("hmac-sha256:"+strings.Repeat("0", 64)+"\n"), 0o600))
	cfg := parse(t, "tenants: [{id: acme, capabilities: ['*'], keys: [{id: aaaaaaaaaaaaaaaa, hash_file: '"+hash+
		"'}]}]\n")
	_, err := settings.WithFiles(cfg, settings.Files{}, nil)
	if err == nil || !strings.Contains(err.Error(), "was made with a pepper, but pepper_file is not set") {
		t.Error(err)
	}
}

// TestLimitsOfTenants: a tenant has its own limits, or else the file's, and so has the one tenant of a file without
// tenants.
func TestLimitsOfTenants(t *testing.T) {
	t.Parallel()
	const limits = "limits: {calls_per_second: 7}\n"
	s, err := settings.WithFiles(parse(t, limits+
		"tenants: [{id: a, capabilities: ['*']}, {id: b, capabilities: ['*'], limits: {calls_per_second: 3}}]\n"),
		settings.Files{}, nil)
	check.Must(t, err)
	of := s.Tenants()
	if a, b := of["a"].Limits, of["b"].Limits; a.CallsPerSecond != 7 || b.CallsPerSecond != 3 {
		t.Errorf("%+v, %+v", a, b)
	}
	if s.Single(true) != nil || s.Single(false) == nil || s.Single(false).Limits.CallsPerSecond != 7 {
		t.Errorf("%+v", s.Single(false))
	}
}

// TestClientCertificates: authorities of clients make their certificates required, or verified where they are optional.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	dir, authority := t.TempDir(), certtest.New(t)
	cert, key := certtest.PEMOf(t, authority.Server(t))
	for name, text := range map[string]string{"cert": cert, "key": key, "ca": authority.PEM} {
		check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	block := "tls: {cert_file: '" + dir + "/cert', key_file: '" + dir + "/key'"
	for text, want := range map[string]tls.ClientAuthType{
		block + "}\n": tls.NoClientCert,
		block + ", client_ca_file: '" + dir + "/ca'}\n":                        tls.RequireAndVerifyClientCert,
		block + ", client_ca_file: '" + dir + "/ca', client_auth: optional}\n": tls.VerifyClientCertIfGiven,
	} {
		s, err := settings.WithFiles(parse(t, text), settings.Files{}, nil)
		check.Must(t, err)
		if s.ServerTLS.ClientAuth != want || s.ServerTLS.MinVersion < tls.VersionTLS12 {
			t.Errorf("%s: %v, from version %x", text, s.ServerTLS.ClientAuth, s.ServerTLS.MinVersion)
		}
	}
}

// TestHeaderFiles: a header of the file is one that the protocol leaves to it; an error does not repeat the value.
func TestHeaderFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "headers")
	for text, ok := range map[string]bool{"# a comment\n\nAuthorization: Bearer secret\n": true,
		"grpc-timeout: secret\n": false, "secret\n": false, "a b: secret\n": false} {
		check.Must(t, os.WriteFile(file, []byte(text), 0o600))
		s, err := settings.WithFiles(parse(t, "traces: {endpoint: 'h:1', headers_file: '"+file+"'}\n"),
			settings.Files{}, nil)
		if (err == nil) != ok || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", text, err)
		}
		if ok && s.TraceHeaders["authorization"] != "Bearer secret" {
			t.Errorf("%v", s.TraceHeaders)
		}
	}
}
