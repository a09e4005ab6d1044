package cli

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
)

// TestStreamsEndWithTheirCredential: at either port, a stream ends when its key is removed, its token expires
// or loses its roles, the rule of its certificate is removed, or its tenant is removed. Others continue.
func TestStreamsEndWithTheirCredential(t *testing.T) {
	t.Parallel()
	issuer, authority := issuertest.Start(t), certtest.New(t)
	var stays, leaves, acme []string // entries of keys
	keys := map[string]string{}
	for _, one := range []struct {
		name, more string
		to         *[]string
	}{
		{"operator who stays", "roles: [viewer]", &stays}, {"operator", "roles: [viewer]", &leaves},
		{"tenant's who stays", "scopes: [read, role.viewer]", &acme},
		{"tenant's", "scopes: [read, role.viewer]", &leaves},
	} {
		key, entry := operatorKey(one.more)
		keys[one.name], *one.to = key, append(*one.to, entry)
	}
	files := configMap{dir: t.TempDir()}
	cert, key := certtest.PEMOf(t, authority.Server(t))
	put := func(operators, people, keysOfAcme, tenants, spiffe string) {
		files.put(t, map[string]string{"cert": cert, "key": key, "ca": authority.PEM,
			"capgate.yaml": configOf(fmt.Sprintf(
				"policies: {}\noperators: {tls: {cert_file: %s, key_file: %s, client_ca_file: %s, client_auth: "+
					"optional}, "+"certificates: [{spiffe: %s, roles: [viewer]}], keys: [%s], people: [%s]}\ntenants: "+
					"[{id: acme, capabilities: ['*'], keys: [%s]}, {id: initech, capabilities: ['*']}%s]\n"+
					"issuers: [{name: corp, issuer: %q, audiences: [capgate], "+
					"ca_file: %s, leeway: 0s, claims: {scopes: scope}}]\n", files.file("cert"), files.file("key"),
				files.file("ca"),
				spiffe, operators, people, keysOfAcme, tenants, issuer.URL, issuer.CAFile), "127.0.0.1:1")})
	}
	const one = "spiffe://example.org/one"
	put(stays[0]+", "+leaves[0], "{issuer: corp, user: ann, roles: [viewer]}", acme[0]+", "+leaves[1],
		", {id: globex, capabilities: ['*']}", one)
	p, public, admin := serve(t, asksOperators, "--config", files.file("capgate.yaml"))
	follow := func(base, credential string, certs ...tls.Certificate) <-chan struct{} {
		v := &visitor{T: t, bearer: credential, Client: http.Client{Transport: clienttest.Bound(&http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: authority.Pool, Certificates: certs}})}}
		return v.events(base + "/v1/approvals/events")
	}
	token := func(claims map[string]any) string {
		claims["scope"] = "read role.viewer"
		return issuer.Token(t, claims)
	}
	long := token(map[string]any{"sub": "bob", "tenant_id": "initech"})
	ends, lasts := map[string]<-chan struct{}{}, map[string]<-chan struct{}{}
	for name, credential := range map[string]string{"operator": keys["operator"], "tenant's": keys["tenant's"],
		"token of a tenant": token(map[string]any{"sub": "bob", "tenant_id": "globex"}),
		"token of a person": token(map[string]any{"sub": "ann", "tenant_id": "umbrella"})} {
		ends[name] = follow("https://"+admin, credential)
		if name != "operator" && name != "token of a person" {
			ends[name+", public port"] = follow("http://"+public, credential)
		}
	}
	ends["certificate"] = follow("https://"+admin, "", authority.Client(t, nil, one))
	for name, credential := range map[string]string{"operator": keys["operator who stays"],
		"tenant's": keys["tenant's who stays"], "token": long} {
		if lasts[name] = follow("https://"+admin, credential); name != "operator" {
			lasts[name+", public port"] = follow("http://"+public, credential)
		}
	}
	for port, base := range map[string]string{"": "https://" + admin, ", public port": "http://" + public} {
		// The gateway has the issuer's keys by now, so that the token is accepted before it expires.
		ends["token that expires"+port] = follow(base, token(map[string]any{"sub": "bob", "tenant_id": "initech",
			"exp": time.Now().Add(8 * time.Second).Unix()}))
	}
	put(stays[0], "", acme[0], "", "spiffe://example.org/other")
	p.signal(t, syscall.SIGHUP)
	for name, ended := range ends {
		check.Received(t, ended, "the end of the stream of "+name)
	}
	for name, ended := range lasts {
		select {
		case <-ended:
			t.Errorf("the stream of %s has ended", name)
		default:
		}
	}
}
