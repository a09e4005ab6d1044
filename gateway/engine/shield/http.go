package shield

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/httpclient"
	"github.com/capgate/capgate/internal/lib/weburl"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy/extauthz"
)

// httpClient is the client of Shield's HTTP API: POST /evaluate of the standalone server. It takes {type,
// payload} and answers with a Verdict whose times are RFC 3339 (openparallax/openparallax,
// cmd/shield/serve.go and shield/types.go). Its documentation names the type action_type
// (docs/shield/standalone.md), so the request contains both names.
type httpClient struct {
	url    string
	client *http.Client
}

func newHTTP(address string, secure *tls.Config) (*httpClient, error) {
	if _, err := weburl.Parse(address, "http://shield:9090/evaluate"); err != nil {
		return nil, fmt.Errorf("the URL %w", err)
	}
	return &httpClient{url: address, client: httpclient.New(httpclient.Config{
		Name: "capgate-shield", TLS: secure, MaxHeader: 16 << 10,
		MaxConns: extauthz.MaxConcurrent, MaxIdle: extauthz.MaxConcurrent,
	})}, nil
}

func (h *httpClient) Close() { h.client.CloseIdleConnections() }

func (h *httpClient) Evaluate(ctx context.Context, a *extauthz.Action) (*extauthz.Reply, error) {
	body, err := json.Marshal(map[string]any{
		"type": a.Kind, "action_type": a.Kind, "payload": json.RawMessage(a.Args), "tool_name": a.Tool,
	})
	if err != nil {
		// impossible, because the arguments are JSON
		return nil, extauthz.Malformed("a request that cannot be encoded")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return nil, extauthz.Malformed("an invalid URL")
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := h.client.Do(request)
	if err != nil {
		return nil, httpFailure(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, statusFailure(response.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxReply+1))
	switch {
	case err != nil && ctx.Err() == nil:
		return nil, extauthz.Malformed("a truncated reply")
	case err != nil:
		return nil, httpFailure(ctx.Err())
	case len(text) > maxReply:
		return nil, extauthz.Malformed("a reply that is too long")
	}
	return readVerdict(text)
}

// readVerdict is strict about the decision, and ignores other malformed fields.
func readVerdict(text []byte) (*extauthz.Reply, error) {
	value, err := toolschema.Decode(text)
	if err != nil {
		return nil, extauthz.Malformed("a reply that is not JSON")
	}
	fields, _ := value.(map[string]any)
	r := &extauthz.Reply{}
	switch fields["decision"] {
	case "ALLOW":
		r.Verdict = call.Allow
	case "BLOCK":
		r.Verdict = call.Block
	case "ESCALATE":
		r.Verdict = call.Ask
	default:
		return nil, extauthz.Malformed("an unknown decision")
	}
	r.Reasoning, _ = fields["reasoning"].(string)
	r.ActionHash, _ = fields["action_hash"].(string)
	r.Evaluated, r.Expires = timeIn(fields["evaluated_at"]), timeIn(fields["expires_at"])
	return r, nil
}

// timeIn parses a time; zero if it is malformed.
func timeIn(value any) time.Time {
	text, _ := value.(string)
	t, _ := time.Parse(time.RFC3339, text)
	return t
}

// httpFailure distinguishes an unreachable Shield from a malformed reply. It omits the error's text.
func httpFailure(err error) error {
	var network net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return extauthz.Unreachable("no answer in time")
	case errors.Is(err, io.EOF), errors.As(err, new(*net.OpError)), errors.As(err, &network) && network.Timeout():
		return extauthz.Unreachable("no connection, or a lost one")
	}
	return extauthz.Malformed("a reply that is not HTTP")
}

func statusFailure(code int) error {
	why := "HTTP status " + strconv.Itoa(code)
	switch code {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return extauthz.Unreachable(why)
	}
	return extauthz.Malformed(why)
}
