// Package grpcerror puts errors of gRPC calls into words for operators.
package grpcerror

import (
	"errors"
	"net"
	"net/url"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// NoAnswer explains a call that reached its deadline.
const NoAnswer = "no answer in time"

// connectErrors are texts in the errors of net, crypto/tls and grpc-go about connections, and their meanings. grpc-go
// has no types for them; an unknown text is shown as it is.
var connectErrors = []struct{ text, means string }{ //nolint:gochecknoglobals // a table
	{"connection refused", "connection refused: nothing listens at this address"},
	{"no such host", "the host name does not exist"},
	{"no route to host", "no route to the host"},
	{"network is unreachable", "the network is unreachable"},
	{"i/o timeout", "no connection in time"},
	{"first record does not look like a TLS handshake", "the server does not use TLS, but TLS is configured for it"},
	{"error reading server preface", "the server closed the connection before HTTP/2 began: it may expect TLS"},
	{"failed to receive server preface",
		"the server does not speak HTTP/2: it may expect TLS, or not be a gRPC server"},
	{"connection reset by peer", "the server reset the connection: it may expect TLS"},
}

// Explain returns one line about the error of a call, without an address. The error's message may be a server's text of
// any length.
func Explain(err error) string {
	s := status.Convert(err)
	if s.Code() == codes.DeadlineExceeded {
		return NoAnswer
	}
	detail, connecting := strings.CutPrefix(s.Message(), "connection error: desc = ")
	if s.Code() != codes.Unavailable || !connecting {
		return "gRPC status " + s.Code().String() + ": " + s.Message()
	}
	if means := connectError(detail); means != "" {
		return means
	}
	detail = strings.TrimPrefix(strings.Trim(detail, `"`), "transport: ")
	return "no connection: " + strings.ReplaceAll(detail, `\"`, `"`)
}

// connectError returns the meaning of an error about a connection; "": it is not known.
func connectError(text string) string {
	for _, e := range connectErrors {
		if strings.Contains(text, e.text) {
			return e.means
		}
	}
	return ""
}

// Unreached returns one line about why a request was not sent, without an address. The error may be a status, or one of
// net and net/http.
func Unreached(err error) string {
	if _, is := status.FromError(err); is {
		return Explain(err)
	}
	text := err.Error()
	if means := connectError(text); means != "" {
		return means
	}
	var network *net.OpError
	var request *url.Error
	switch {
	case errors.As(err, &network):
		return "no connection: " + network.Err.Error()
	case errors.As(err, &request):
		return request.Err.Error()
	}
	return text
}

// NoHTTP2 reports whether a call failed as the server at the other end of a connection did not begin HTTP/2.
func NoHTTP2(err error) bool {
	s := status.Convert(err)
	return s.Code() == codes.Unavailable && strings.HasPrefix(s.Message(), "connection error: desc = ")
}

// Answered reports whether an error is a server's answer.
func Answered(err error) bool { return !NoHTTP2(err) && status.Code(err) != codes.DeadlineExceeded }

// Unimplemented reports whether a gRPC server has answered that it lacks a method. grpc-go has the same code for
// a response of HTTP 404, which is not from a gRPC server.
func Unimplemented(err error) bool {
	s := status.Convert(err)
	return s.Code() == codes.Unimplemented && !strings.HasPrefix(s.Message(), "unexpected HTTP status code")
}
