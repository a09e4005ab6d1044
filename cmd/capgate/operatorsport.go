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

	"github.com/capgate/capgate/gateway/problems"
)

const (
	askTime   = 10 * time.Second // bounds one question to a gateway
	maxAnswer = 64 << 20         // bytes
)

// operatorsPort asks a gateway what only operators may.
type operatorsPort struct {
	base   string // a URL without a path
	client *http.Client
}

// addAdmin adds the flag by which commands are told which gateway to ask.
func addAdmin(fs *flag.FlagSet) *string {
	return fs.String("admin", envOr("CAPGATE_ADMIN", "127.0.0.1:8081"), "`address` of the gateway's operators' port, or its URL (CAPGATE_ADMIN)")
}

func newOperatorsPort(admin string) (*operatorsPort, error) {
	u, err := operatorsURL(admin)
	if err != nil {
		return nil, err
	}
	return &operatorsPort{base: strings.TrimSuffix(u.String(), "/"), client: &http.Client{Timeout: askTime}}, nil
}

// operatorsURL takes what a gateway is told to listen at, too.
func operatorsURL(admin string) (*url.URL, error) {
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

// ask makes a request and decodes its answer. A gateway's refusal is an error in its words.
func (p *operatorsPort) ask(ctx context.Context, method, path string, body, answer any) error {
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
		return fmt.Errorf("the gateway's operators' port does not answer: %w (--admin or CAPGATE_ADMIN says where it is)", err)
	}
	defer resp.Body.Close()
	decoder := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode == http.StatusOK {
		if err := decoder.Decode(answer); err != nil {
			return fmt.Errorf("the gateway's answer cannot be read: %w", err)
		}
		return nil
	}
	var problem problems.Problem
	if err := decoder.Decode(&problem); err != nil || problem.Detail == "" {
		return fmt.Errorf("%s, which is no answer of a capgate's operators' port", resp.Status)
	}
	return errors.New(problem.Detail)
}
