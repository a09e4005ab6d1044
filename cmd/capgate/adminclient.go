package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
)

const (
	requestTimeout = 10 * time.Second // timeout of one request
	maxResponse    = 64 << 20         // bytes
)

// adminClient calls the admin API of a gateway.
type adminClient struct {
	base   string // a URL without a path
	client *http.Client
}

// addAdmin adds the flag with the address of the admin API.
func addAdmin(fs *flag.FlagSet) *string {
	return fs.String("admin", envOr("CAPGATE_ADMIN", "127.0.0.1:8081"),
		"`address` of the gateway's admin API, or its URL (CAPGATE_ADMIN)")
}

func newAdminClient(admin string) (*adminClient, error) {
	u, err := adminURL(admin)
	if err != nil {
		return nil, err
	}
	return &adminClient{base: strings.TrimSuffix(u.String(), "/"), client: &http.Client{Timeout: requestTimeout}}, nil
}

// adminURL also accepts the addresses that a gateway may listen at.
func adminURL(admin string) (*url.URL, error) {
	if strings.Contains(admin, "://") {
		u, err := url.Parse(admin)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, errors.New("--admin: want host:port, or a URL of http or https")
		}
		return u, nil
	}
	host, port, err := net.SplitHostPort(admin)
	if err != nil || port == "" {
		return nil, fmt.Errorf("--admin %q: want host:port or a URL", admin)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return &url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}, nil
}

// do sends a request and decodes the response. A gateway's refusal becomes an error with its message.
func (p *adminClient) do(ctx context.Context, method, path string, body, answer any) error {
	var text io.Reader = http.NoBody
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		text = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, text)
	if err != nil {
		return err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // without the URL, which may hold a password
		}
		return fmt.Errorf("the gateway's admin API does not answer: %w (--admin or CAPGATE_ADMIN sets "+
			"its address)", err)
	}
	defer resp.Body.Close()
	decoder := json.NewDecoder(io.LimitReader(resp.Body, maxResponse))
	if resp.StatusCode == http.StatusOK {
		if err := decoder.Decode(answer); err != nil {
			return fmt.Errorf("the gateway's response cannot be decoded: %w", err)
		}
		return nil
	}
	var problem problem.Problem
	if err := decoder.Decode(&problem); err != nil || problem.Detail == "" {
		return fmt.Errorf("%s: this is not the admin API of a capgate gateway", resp.Status)
	}
	if problem.Reason == "NO_SUCH_PATH" && portAt(ctx, p.client, p.base) == publicPort {
		return errors.New(wrongPort(p.base))
	}
	return errors.New(problem.Detail)
}

// The ports of a gateway.
const (
	adminPort  = "admin"
	publicPort = "public"
)

// portAt returns which port of a gateway is at a URL, "" if that is unknown. Only the admin API has readiness.
func portAt(ctx context.Context, client *http.Client, base string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", http.NoBody)
	if err != nil {
		return ""
	}
	resp, err := client.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var answer struct {
		Ready  *bool  `json:"ready"`
		Reason string `json:"reason"`
	}
	if json.NewDecoder(io.LimitReader(resp.Body, maxResponse)).Decode(&answer) != nil {
		return ""
	}
	switch {
	case answer.Ready != nil:
		return adminPort
	case answer.Reason == "NO_SUCH_PATH" || resp.StatusCode == http.StatusUnauthorized && answer.Reason != "":
		return publicPort
	}
	return ""
}

// wrongPort returns the error for a command of the admin API that called the public port.
func wrongPort(base string) string {
	_, host, _ := strings.Cut(base, "://")
	return host + " is the public port of a gateway; this command needs its admin API, the address admin in its " +
		"configuration (--admin or CAPGATE_ADMIN)"
}

// explainAdmin describes the error of a call of the admin API, and whether it reached another port.
func explainAdmin(ctx context.Context, admin string, err error) string {
	switch status.Code(err) {
	case codes.Unimplemented, codes.Unauthenticated, codes.PermissionDenied:
		p, wrong := newAdminClient(admin)
		if wrong == nil && portAt(ctx, p.client, p.base) == publicPort {
			return wrongPort(p.base)
		}
	}
	return describeStatus(err)
}
