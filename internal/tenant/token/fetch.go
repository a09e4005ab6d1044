package token

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/capgate/capgate/internal/lib/httpclient"
	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/lib/weburl"
)

// maxAnswer bounds one response, in bytes.
const maxAnswer = 1 << 20

// fetcher fetches the keys of one issuer. It follows no redirect and uses no proxy.
type fetcher struct {
	issuer   string
	jwks     string // "": from discovery
	insecure bool
	client   *http.Client
}

func newFetcher(i *Issuer) *fetcher {
	client := httpclient.New(httpclient.Config{Name: "capgate-issuer", Compression: true,
		TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: i.Source.Roots}})
	return &fetcher{issuer: i.URL, jwks: i.JWKS, insecure: i.Insecure,
		client: &http.Client{Transport: bounded{client}, CheckRedirect: client.CheckRedirect}}
}

// fetched holds the published keys and scopes of an issuer.
type fetched struct {
	keys   []*key
	scopes []string // that it supports (RFC 8414 §2); nil: it does not say
}

// fetch fetches the keys, and the scopes unless the keys have a URL of their own.
func (f *fetcher) fetch(ctx context.Context, timeout time.Duration) (got fetched, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer f.client.CloseIdleConnections() // the next fetch is minutes later
	from := f.jwks
	if from == "" {
		provider, err := oidc.NewProvider(oidc.ClientContext(ctx, f.client), f.issuer)
		if err != nil {
			return got, fmt.Errorf("discovery: %w", err)
		}
		var metadata struct {
			JWKS   string          `json:"jwks_uri"`
			Scopes json.RawMessage `json:"scopes_supported"`
		}
		if err = provider.Claims(&metadata); err != nil {
			return got, fmt.Errorf("discovery: %w", err)
		}
		if err = CheckURL(metadata.JWKS, f.insecure); err != nil {
			return got, fmt.Errorf("discovery: jwks_uri %w", err)
		}
		from = metadata.JWKS
		_ = json.Unmarshal(metadata.Scopes, &got.scopes) // the keys do not depend on it
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return got, err
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return got, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return got, err
	}
	got.keys, err = parseKeys(data)
	return got, err
}

// CheckURL checks that keys may be fetched from a URL. An attacker who can change cleartext in transit could sign
// tokens.
func CheckURL(text string, insecure bool) error {
	u, err := weburl.Parse(text, "https://login.example.com")
	if err == nil && weburl.IsCleartext(u) && !insecure {
		err = errors.New("is cleartext HTTP; use https, or insecure: true for tests")
	}
	return err
}

// bounded rejects long responses, and those with a status other than 200. Its errors quote nothing of a response.
type bounded struct{ *http.Client }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("the response has the status %d", resp.StatusCode)
	}
	resp.Body = &body{ReadCloser: resp.Body, left: maxAnswer}
	return resp, nil
}

// body fails when it exceeds its bound.
type body struct {
	io.ReadCloser
	left int
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errors.New("the response is longer than 1 MiB")
	}
	return n, err
}

// why returns the text of a failure for the log, without the URL: its query may contain a secret.
func why(err error) string {
	if of := (*url.Error)(nil); errors.As(err, &of) {
		err = of.Err
	}
	return untrusted.Clip(err.Error(), 300)
}
