package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
)

// TestMain makes the test binary an issuer of tokens when it is started as one.
func TestMain(m *testing.M) {
	issuertest.Main()
	check.BoundMemory()
	os.Exit(m.Run())
}

// tokened returns a front that requires tokens of an issuer.
func tokened(t *testing.T, client, backend call.Dialect) (*front, *issuertest.Issuer) {
	t.Helper()
	i := issuertest.Start(t)
	return identified(t, verifier(t, i), client, backend), i
}

// identified returns a front with the given authenticator.
func identified(t *testing.T, by authenticate.Authenticator, client, backend call.Dialect) *front {
	t.Helper()
	f := &front{capability: gatewaytest.NewCapability("b1")}
	f.backend = f.capability.Serve(t, backend)
	f.gateway = gatewaytest.Start(t, gatewaytest.Options{
		Fleets:        []gatewaytest.Fleet{{Capability: "caps", Backends: []string{f.backend.Addr}}},
		Authenticator: by,
	})
	f.conn = f.gateway.Conn(t)
	f.client = gatewaytest.NewClient(f.conn, client)
	return f
}

// issuersFor returns an issuer of tokens for an audience.
func issuersFor(i *issuertest.Issuer, audience string) []token.Issuer {
	return []token.Issuer{{
		Name: "corp", URL: i.URL, Audiences: []string{audience}, Algorithms: []string{"RS256", "ES256", "EdDSA"},
		Leeway:     time.Minute,
		Claims:     token.Claims{Tenant: "tenant_id", User: "sub", Scopes: "scope"},
		ScopeNames: tenant.ScopesByName(),
		Source: token.Source{Refresh: 50 * time.Millisecond, MaxStale: time.Hour, Timeout: check.Patience,
			Roots: i.Roots},
	}}
}

// verifier is startVerifier that has the issuer's keys, for which a call waits for a few seconds alone.
func verifier(t *testing.T, i *issuertest.Issuer) *token.Verifier {
	t.Helper()
	v := startVerifier(t, i)
	check.Holds(t, "the issuer's keys", func() bool { return v.Stats()[0].Up })
	return v
}

// startVerifier verifies the tokens of an issuer until the test ends.
func startVerifier(t *testing.T, i *issuertest.Issuer) *token.Verifier {
	t.Helper()
	all, err := tenant.ParseGrants([]string{"*"})
	check.Must(t, err)
	directory := tenant.NewDirectory(nil)
	directory.Replace(map[string]*tenant.Settings{"acme": {ID: "acme", Capabilities: all}})
	v := token.New(directory, token.Options{})
	v.Replace(issuersFor(i, "capgate"))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.Run(ctx)
	}()
	check.Cleanup(t, func() {
		cancel()
		check.Received(t, done, "the verifier to stop")
	})
	return v
}

// TestHostileTokens: over gRPC and JSON, no forged or malformed token is accepted, no response says why, and
// nothing of a token is disclosed.
func TestHostileTokens(t *testing.T) {
	t.Parallel()
	f, i := tokened(t, call.Doc, call.Doc)
	attacker := issuertest.Start(t)
	good := i.Token(t, nil)
	var output strings.Builder
	try := func(name, raw string, want codes.Code, reason string) {
		t.Helper()
		_, err := f.client.Invoke(bearer(t.Context(), raw), request(gatewaytest.Echo, `{}`))
		if grpcstatus.Code(err) != want || errorInfo(err).GetReason() != reason {
			t.Errorf("%s: %v %v", name, err, errorInfo(err))
		}
		output.WriteString(grpcstatus.Convert(err).Proto().String())
		for _, protocol := range protocols {
			resp, body := post(t, protocol.client(f.gateway, t), f.gateway, "caps", `{"tool_name":"echo"}`,
				"authorization", "Bearer "+raw)
			challenge := resp.Header.Get("WWW-Authenticate")
			if resp.StatusCode != status.HTTP(want) || !strings.Contains(body, reason) ||
				(challenge == `Bearer error="invalid_token"`) != (want == codes.Unauthenticated) {
				t.Errorf("%s, %s: %d %s, %s", name, protocol.name, resp.StatusCode, body, challenge)
			}
			output.WriteString(body + challenge)
		}
	}
	try("a good one", good, codes.OK, "")
	forms := i.Hostile(t, attacker.URL)
	for name, raw := range forms {
		reason := "CREDENTIAL_INVALID"
		if name == "expired" {
			reason = "CREDENTIAL_EXPIRED"
		}
		try(name, raw, codes.Unauthenticated, reason)
	}
	try("a good one again", good, codes.OK, "")
	try("another good one", i.TokenBy(t, "RS256", nil), codes.OK, "")

	both := metadata.AppendToOutgoingContext(bearer(t.Context(), good), "authorization", "Bearer "+i.Token(t, nil))
	if _, err := f.client.Invoke(both,
		request(gatewaytest.Echo, `{}`)); errorInfo(err).GetReason() != "CREDENTIAL_INVALID" {
		t.Errorf("two tokens in two headers: %v", err)
	}
	if n := attacker.Requests(t); n != 0 {
		t.Errorf("the attacker's server got %d requests", n)
	}
	if n := len(f.capability.Seen()); n != 3*(1+len(protocols)) {
		t.Errorf("%d calls reached the backend", n)
	}
	f.gateway.Log.Calls(t, (len(forms)+3)*(1+len(protocols))+1)
	output.WriteString(f.gateway.Log.String())
	_, page := f.gateway.Admin(t, "/metrics")
	output.WriteString(page)
	for name, raw := range forms {
		parts := strings.Split(raw, ".")
		if last := parts[len(parts)-1]; len(last) >= 40 && strings.Contains(output.String(), last) {
			t.Errorf("%s is disclosed", name)
		}
	}
	for _, seen := range f.capability.Seen() {
		if seen.Metadata.Get("authorization") != nil {
			t.Errorf("the backend saw %v", seen.Metadata)
		}
	}
	t.Logf("%d forms", len(forms))
}

// TestTokenDeterminesTheCaller: the log has tenant, user and issuer of the token, headers cannot change them, and
// scopes apply.
func TestTokenDeterminesTheCaller(t *testing.T) {
	eachPair(t, func(t *testing.T, client, backend call.Dialect) {
		f, i := tokened(t, client, backend)
		ctx := metadata.AppendToOutgoingContext(bearer(to(t.Context(), "caps"), i.Token(t, nil)), "x-tenant-id",
			"globex", "x-user-id", "eve", "x-agent-id", "bot")
		if _, err := f.client.Invoke(ctx, request(gatewaytest.Echo, `{}`)); err != nil {
			t.Fatal(err)
		}
		if _, err := f.client.Upload(ctx, gatewaytest.File{Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		for _, line := range f.gateway.Log.Calls(t, 2) {
			if line.Text("tenant") != "acme" || line.Text("key") != "corp" || line.Text("user") != "ann" ||
				line.Text("agent") != "" {
				t.Error(line)
			}
		}
		for scope, reason := range map[string]string{"read": "SCOPE_MISSING", "admin invoke": "", "": "SCOPE_MISSING",
			"INVOKE invoke:all": "SCOPE_MISSING"} {
			_, err := f.client.Invoke(bearer(t.Context(), i.Token(t, map[string]any{"scope": scope})),
				request(gatewaytest.Echo, `{}`))
			if errorInfo(err).GetReason() != reason {
				t.Errorf("%q: %v", scope, err)
			}
		}
	})
}

// TestTokensAreVerifiedBesideTheReader: while a token waits for its issuer, other calls of the connection
// continue.
func TestTokensAreVerifiedBesideTheReader(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	raw := i.Token(t, nil)
	i.Behave(t, "silence")
	ring := newKeyring()
	keys := tenant.NewKeys(nil)
	keys.Replace(ring.keys, nil, nil)
	callers := tenant.NewAuthenticators(tenant.Sources{File: keys, Tokens: startVerifier(t, i)})
	f := identified(t, callers, call.Doc, call.Doc)
	invoke := func(credential string) error {
		_, err := f.client.Invoke(bearer(t.Context(), credential), request(gatewaytest.Echo, `{}`))
		return err
	}
	waited := make(chan error, 1)
	go func() { waited <- invoke(raw) }()
	longest := time.Duration(0)
	for range 5 {
		began := time.Now()
		if err := invoke(ring.credentials["acme"]); err != nil {
			t.Error(err)
		}
		longest = max(longest, time.Since(began))
	}
	const wait = 5 * time.Second                // of the token
	if len(waited) > 0 && longest > wait*4/10 { // a busy machine may need that long for all of them
		t.Errorf("a call took %v, as the token waited", longest)
	}
	if err := check.Received(t, waited, "the end of the wait"); errorInfo(err).GetReason() != "IDENTITY_UNAVAILABLE" {
		t.Error(err)
	}
}

// TestIssuersComeAndGoUnderLoad: no call with a valid token fails while keys rotate or the issuer is away, and
// none with a token of a withdrawn key succeeds.
func TestIssuersComeAndGoUnderLoad(t *testing.T) {
	t.Parallel()
	f, i := tokened(t, call.Doc, call.Doc)
	first := make(chan string, 200)
	fill := func(to chan string) {
		header := map[string]any{"alg": "ES256", "kid": i.KID(t, "ES256"), "typ": "at+jwt"}
		for range cap(to) {
			to <- i.Sign(t, "ES256", header, i.Claims(nil))
		}
	}
	fill(first)
	var tokens atomic.Pointer[chan string] // each is sent once, besides one that is sent repeatedly
	tokens.Store(&first)
	known := i.Token(t, nil)
	var calls atomic.Int64
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for {
				raw := known
				select {
				case <-stop:
					return
				case raw = <-*tokens.Load():
				case <-time.After(time.Millisecond): // leaves the issuer time to sign
				}
				if _, err := f.client.Invoke(bearer(t.Context(), raw), request(gatewaytest.Echo, `{}`)); err != nil {
					t.Errorf("got %v", err)
					return
				}
				calls.Add(1)
			}
		})
	}
	more := func(n int64) { // calls continue
		t.Helper()
		want := calls.Load() + n
		check.Until(t, "further calls", func() (bool, string) {
			now := calls.Load()
			return now >= want || t.Failed(), fmt.Sprintf("%d calls, want %d", now, want)
		})
	}
	more(100)
	i.Rotate(t, true)
	second := make(chan string, 200)
	fill(second)
	tokens.Store(&second)
	more(300)
	third := make(chan string, 200)
	fill(third)
	i.Stop(t)
	tokens.Store(&third)
	more(300)
	i.Resume(t)
	more(100)
	close(stop)
	load.Wait()
	withdrawn := i.Token(t, nil)
	if _, err := f.client.Invoke(bearer(t.Context(), withdrawn), request(gatewaytest.Echo, `{}`)); err != nil {
		t.Error(err)
	}
	i.Rotate(t, false)
	check.Until(t, "a withdrawn key's token to be refused", func() (bool, string) {
		_, err := f.client.Invoke(bearer(t.Context(), withdrawn), request(gatewaytest.Echo, `{}`))
		return errorInfo(err).GetReason() == "CREDENTIAL_INVALID", fmt.Sprint(err)
	})
	if resp, body := post(t, f.gateway.HTTP1(t), f.gateway, "caps", `{"tool_name":"echo"}`, "authorization",
		"Bearer "+i.Token(t, nil)); resp.StatusCode != http.StatusOK {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
}
