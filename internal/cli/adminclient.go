package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/status"
)

const (
	requestTimeout = 10 * time.Second // timeout of one request
	maxResponse    = 64 << 20         // bytes
)

// adminClient calls the admin API of a gateway.
type adminClient struct {
	base   string // a URL without a path
	access *adminAccess
	client *http.Client // it follows no redirects, which might lead the credential elsewhere
}

func newAdminClient(access *adminAccess) (*adminClient, error) {
	if err := access.read(); err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if access.secure != nil {
		client.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: access.secure.Clone(),
			ForceAttemptHTTP2: true}
	}
	return &adminClient{base: strings.TrimSuffix(access.base.String(), "/"), access: access, client: client}, nil
}

// adminURL also accepts the addresses that a gateway may listen at.
func adminURL(admin string) (*url.URL, error) {
	if strings.Contains(admin, "://") {
		u, err := url.Parse(admin)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, usageError("--admin: want host:port, or a URL of http or https")
		}
		return u, nil
	}
	host, port, err := net.SplitHostPort(admin)
	if err != nil || port == "" {
		return nil, usageError("--admin %q: want host:port or a URL", admin)
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
		data, err := asJSON(body)
		if err != nil {
			return err
		}
		text = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, text)
	if err != nil {
		return err
	}
	if header := p.access.header(); header != "" {
		req.Header.Set("Authorization", header)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return exitError{exitUnreachable, errors.New(unreachable(ctx, "admin API", p.access.target(), err) +
			"; the flag --admin or the variable CAPGATE_ADMIN sets its address")}
	}
	defer resp.Body.Close()
	decoder := json.NewDecoder(io.LimitReader(resp.Body, maxResponse))
	if resp.StatusCode == http.StatusOK {
		var text json.RawMessage
		err := decoder.Decode(&text)
		if err == nil {
			err = decode(text, answer)
		}
		if err != nil {
			return refused("%s answers, but not as the admin API of a capgate gateway; --admin or CAPGATE_ADMIN sets "+
				"the address", req.URL.Host)
		}
		return nil
	}
	status := exitRefused
	if resp.StatusCode >= http.StatusBadGateway {
		status = exitUnreachable
	}
	var problem problem.Problem
	if err := decoder.Decode(&problem); err != nil || problem.Detail == "" {
		return exitError{status, fmt.Errorf("%s: %s is not the admin API of a capgate gateway; --admin or "+
			"CAPGATE_ADMIN sets the address", resp.Status, req.URL.Host)}
	}
	if problem.Reason == "NO_SUCH_PATH" && portAt(ctx, p.client, p.base) == publicPort {
		return refused("%s", wrongPort(p.base))
	}
	return exitError{status, fmt.Errorf("%s (%s)", p.access.explainRefusal(problem.Reason, problem.Detail),
		problem.Reason)}
}

// decode decodes a message, or a value of encoding/json.
func decode(text []byte, to any) error {
	if m, ok := to.(proto.Message); ok {
		return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, m)
	}
	return json.Unmarshal(text, to)
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
func explainAdmin(ctx context.Context, admin *adminAccess, err error) error {
	p, wrong := newAdminClient(admin)
	if wrong != nil {
		return wrong
	}
	switch grpcstatus.Code(err) {
	case codes.Unimplemented, codes.Unauthenticated, codes.PermissionDenied:
		if portAt(ctx, p.client, p.base) == publicPort {
			return refused("%s", wrongPort(p.base))
		}
	}
	if reason := status.InfoOf(err).GetReason(); reason != "" && !away(err) {
		return refused("%s (%s)", admin.explainRefusal(reason, grpcstatus.Convert(err).Message()), reason)
	}
	return explainCall(ctx, "admin API", admin.target(), "--admin or CAPGATE_ADMIN", err)
}

// overAdmin returns a command that calls the admin API over gRPC, for at most so long; 0: no limit. Every function of
// flags adds some.
func overAdmin(use, about string, most time.Duration,
	run func(c *cobra.Command, conn grpc.ClientConnInterface, args []string) error,
	flags ...func(*pflag.FlagSet)) *cobra.Command {
	c := &cobra.Command{Use: use, Short: about}
	admin := addAdmin(c)
	for _, add := range flags {
		add(c.Flags())
	}
	completeOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		conn, err := admin.dial("capgate-" + c.Parent().Name())
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		whole := c.Context()
		defer within(c, most)()
		if err := run(c, conn, args); err != nil {
			return explainedBy(err, func(err error) error { return explainAdmin(whole, admin, err) })
		}
		return nil
	}
	return c
}

// within gives a command's context a timeout; 0: none.
func within(c *cobra.Command, most time.Duration) (cancel func()) {
	if most == 0 {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(c.Context(), most)
	c.SetContext(ctx)
	return cancel
}

// explainedBy leaves alone the errors that are not of a call.
func explainedBy(err error, explain func(error) error) error {
	if _, isStatus := grpcstatus.FromError(err); !isStatus {
		return err
	}
	return explain(err)
}
