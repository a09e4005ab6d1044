package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/capgate/capgate/internal/lib/httpclient"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

const (
	maxReply  = 64 << 10 // bytes of a response body that are read, so that the connection can be reused
	maxReason = 200      // bytes of the reason of a failure
)

// endpoint is the receiver of requests.
type endpoint struct {
	Config
	client *http.Client
}

func newEndpoint(c Config) *endpoint {
	of := httpclient.Config{Name: "capgate-webhook", TLS: c.TLS, Timeout: c.Timeout, MaxHeader: 16 << 10,
		MaxConns: workers, MaxIdle: workers}
	if c.Proxy {
		of.Proxy = http.ProxyFromEnvironment
	}
	return &endpoint{Config: c, client: httpclient.New(of)}
}

func (p *endpoint) close() { p.client.CloseIdleConnections() }

// reply is the result of a request.
type reply struct {
	delivered bool
	rejected  int           // recipients that did not get a delivered message
	gone      bool          // the receiver permits no further requests for it
	wait      time.Duration // the least wait before the next request; 0: none given
	reason    string        // of a failure; without the URL
}

// send makes one attempt to deliver a body, which bodyOf has made.
func (p *endpoint) send(ctx context.Context, id string, now time.Time, body []byte) reply {
	if p.Mail.On {
		return p.sendMail(ctx, body)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, bytes.NewReader(body))
	if err != nil {
		return reply{reason: "the URL is invalid"}
	}
	head := request.Header
	head.Set("Content-Type", "application/json")
	if p.Format == Generic {
		head.Set("Webhook-Id", id)
		head.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
		head.Set("Webhook-Signature", sign(p.Secrets, id, now, body))
	}
	response, err := p.client.Do(request)
	if err != nil {
		return reply{reason: reason(err)}
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, maxReply) // the body is ignored
	r := reply{reason: "HTTP status " + strconv.Itoa(response.StatusCode)}
	switch code := response.StatusCode; {
	case code >= 200 && code < 300:
		r.delivered = true
	case code == http.StatusGone:
		r.gone = true
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		r.wait = retryAfter(response.Header.Get("Retry-After"), now)
	}
	return r
}

// retryAfter parses seconds, or a date (RFC 9110 §10.2.3).
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}

// reason describes a request without an answer. It contains neither its URL nor any text of the receiver.
func reason(err error) string {
	var network *net.OpError
	var name *net.DNSError
	var timeout net.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	case errors.As(err, &name):
		return "the host is not known to DNS"
	case errors.As(err, &certificate), errors.As(err, new(x509.UnknownAuthorityError)),
		errors.As(err, new(x509.HostnameError)):
		return "its TLS certificate is not trusted"
	case errors.As(err, new(tls.RecordHeaderError)), errors.Is(err, http.ErrSchemeMismatch):
		return "the server does not speak TLS"
	case errors.As(err, &network):
		return untrusted.Cut(network.Op+": "+network.Err.Error(), maxReason)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was lost"
	}
	return "the answer is not HTTP"
}
