package mailer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/textproto"
	"strconv"
)

// Error is the reason for which a message was not handed in.
type Error struct {
	// Permanent: the server rejects this message, and would reject it again.
	Permanent bool
	reason    string
	cause     error
}

// Error describes the failure without any text of the server, which may repeat addresses and secrets.
func (e *Error) Error() string { return e.reason }

// Unwrap returns the cause. Its text may contain what Error leaves out.
func (e *Error) Unwrap() error { return e.cause }

// failed returns the error of a command.
func failed(command string, err error) *Error {
	e := &Error{cause: err}
	var reply *textproto.Error
	var network *net.OpError
	var name *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled):
		e.reason = "canceled"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		e.reason = "no answer in time"
	case errors.As(err, &reply):
		// a rejected sign-in, or a server that is closed for now, is mended by an operator
		e.Permanent = reply.Code >= 500 && reply.Code != 503 && command != "AUTH" && command != "connect" &&
			reply.Code != 530
		e.reason = "the server answered " + strconv.Itoa(reply.Code) + " to " + command
	case errors.Is(err, errAddress), errors.Is(err, errCleartext), errors.Is(err, errNoStartTLS),
		errors.Is(err, errNoAuth), errors.Is(err, errPrompt), errors.Is(err, errTooLong):
		e.reason = err.Error()
	case errors.As(err, &name):
		e.reason = "the host is not known to DNS"
	case errors.As(err, new(*tls.CertificateVerificationError)), errors.As(err, new(x509.UnknownAuthorityError)),
		errors.As(err, new(x509.HostnameError)):
		e.reason = "its TLS certificate is not trusted"
	case errors.As(err, new(tls.RecordHeaderError)):
		e.reason = "the server does not speak TLS"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		e.reason = "the connection was lost"
	case errors.As(err, &network):
		e.reason = network.Op + ": " + network.Err.Error()
	default:
		e.reason = "the answer is not SMTP"
	}
	return e
}

func isReply(err error) bool { return errors.As(err, new(*textproto.Error)) }
