package token_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clocktest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
)

func TestMain(m *testing.M) {
	issuertest.Main()
	os.Exit(m.Run())
}

// acme, globex and idle, which is disabled, are the tenants of the file.
var (
	acme   = &tenant.Settings{ID: "acme"}
	globex = &tenant.Settings{ID: "globex"}
	idle   = &tenant.Settings{ID: "idle", Disabled: true}
)

func directory() *tenant.Directory {
	d := tenant.NewDirectory(nil)
	d.Replace(map[string]*tenant.Settings{"acme": acme, "globex": globex, "idle": idle})
	return d
}

// configOf returns the configuration of most tests.
func configOf(i *issuertest.Issuer, change func(*token.Issuer)) token.Issuer {
	c := token.Issuer{
		Name: "corp", URL: i.URL, Audiences: []string{"capgate"},
		Algorithms: []string{"RS256", "PS256", "ES256", "EdDSA"},
		Leeway:     time.Minute,
		Claims:     token.Claims{Tenant: "tenant_id", User: "sub"},
		Scopes:     tenant.Invoke,
		Source: token.Source{Refresh: time.Hour, MaxStale: 24 * time.Hour, Timeout: check.Patience,
			Roots: i.Roots},
	}
	if change != nil {
		change(&c)
	}
	return c
}

// start runs a Verifier until the test ends.
func start(t testing.TB, clock *clocktest.Clock, issuers ...token.Issuer) *token.Verifier {
	t.Helper()
	var o token.Options
	if clock != nil {
		o.Now = clock.Now
	}
	return startWith(t, directory(), o, issuers...)
}

func startWith(t testing.TB, tenants token.Tenants, o token.Options, issuers ...token.Issuer) *token.Verifier {
	t.Helper()
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	v := token.New(tenants, o)
	v.Replace(issuers)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		check.Received(t, done, "the verifier to stop")
	})
	return v
}

// ask verifies a token as the gateway does: from memory, or else in the background.
func ask(t testing.TB, v *token.Verifier, raw string) (who tenant.Identity, reason string) {
	t.Helper()
	return claim(t, v, tenant.Credentials{Credential: raw})
}

func claim(t testing.TB, v *token.Verifier, c tenant.Credentials) (who tenant.Identity, reason string) {
	t.Helper()
	who, known, refusal := v.Lookup(c)
	if !known {
		ctx, cancel := context.WithTimeout(context.Background(), check.Patience)
		defer cancel()
		who, refusal = v.Authenticate(ctx, c)
	}
	if refusal != nil {
		return who, refusal.Reason
	}
	return who, ""
}

// want checks the result of a token.
func want(t testing.TB, v *token.Verifier, what, raw, reason string) {
	t.Helper()
	if who, got := ask(t, v, raw); got != reason {
		t.Errorf("%s: %q, want %q (%+v)", what, got, reason, who)
	}
}
