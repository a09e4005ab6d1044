package container

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/capgate/capgate/internal/lib/buildinfo"
	"github.com/capgate/capgate/internal/lib/sniff"
)

// Target is the address of a container.
type Target struct {
	Addr string      // host:port
	TLS  *tls.Config // nil: cleartext. An empty ServerName means the host
}

// Kind is the kind of a Problem.
type Kind string

// The kinds.
const (
	Unresolved    Kind = "unresolved"      // the host name does not resolve
	NothingThere  Kind = "nothing_listens" // connections are refused
	Unreachable   Kind = "unreachable"     // no connection for another reason
	NotHTTP2      Kind = "not_http2"       // another protocol
	TLSNeeded     Kind = "tls_needed"      // it requires TLS
	NotTLS        Kind = "not_tls"         // it does not support TLS
	BadConnection Kind = "certificate"     // the TLS handshake fails: a certificate, a version
)

// Problem is the reason why a container cannot be reached.
type Problem struct {
	Kind  Kind
	Words string // for people
	Err   error  // may be nil
}

func (p *Problem) Error() string { return p.Words }

func (p *Problem) Unwrap() error { return p.Err }

// hello is the client preface of HTTP/2 with empty SETTINGS (RFC 9113 §3.4).
const hello = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// ping is a PING frame, which every HTTP/2 server acknowledges (RFC 9113 §6.7).
const ping = "\x00\x00\x08\x06\x00\x00\x00\x00\x00capgate?"

const (
	pingFrame          = 0x06
	goAwayFrame        = 0x07
	inadequateSecurity = 0x0c        // an error code of HTTP/2 (RFC 9113 §7)
	pingTime           = time.Second // for its acknowledgement; without one the next request decides
	mostFrames         = 64 << 10    // bytes that are read meanwhile
)

// The first byte of a TLS alert record (RFC 8446 §5.1), and the type of a SETTINGS frame, the first one of
// every HTTP/2 server.
const (
	alertRecord   = 0x15
	settingsFrame = 0x04
)

// Reach reports whether the target is an HTTP/2 server. The error is a *Problem. ctx should have a deadline:
// Reach waits for a silent server.
func (t Target) Reach(ctx context.Context) error {
	raw, err := t.dialTCP(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }()
	if t.TLS != nil {
		secure, err := t.handshake(ctx, raw)
		if err != nil {
			return err
		}
		raw = secure
	}
	first, err := greet(ctx, raw)
	greeted := err == nil && first[3] == settingsFrame
	if greeted && (t.TLS != nil || !wantsTLS(ctx, raw, first)) {
		return nil
	}
	if greeted || t.TLS == nil && t.speaksTLS(ctx, first) {
		return &Problem{Kind: TLSNeeded, Words: t.Addr + " speaks TLS: use --tls, or --tls-ca FILE"}
	}
	switch {
	case bytes.HasPrefix(first, []byte("HTTP/1")):
		return &Problem{Kind: NotHTTP2, Words: t.Addr + " speaks HTTP/1 and not HTTP/2, which gRPC needs"}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Problem{Kind: NotHTTP2, Words: t.Addr + " accepts connections, but does not answer in HTTP/2 in time",
			Err: err}
	}
	return &Problem{Kind: NotHTTP2, Words: t.Addr + " accepts connections, but does not speak HTTP/2", Err: err}
}

func (t Target) dialTCP(ctx context.Context) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", t.Addr)
	var dns *net.DNSError
	switch {
	case err == nil:
		return nc, nil
	case errors.As(err, &dns):
		return nil, &Problem{Kind: Unresolved, Words: "the host name of " + t.Addr + " does not exist", Err: err}
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, &Problem{Kind: NothingThere, Words: "nothing listens at " + t.Addr, Err: err}
	case ctx.Err() != nil || os.IsTimeout(err):
		return nil, &Problem{Kind: Unreachable, Words: t.Addr + " does not accept a connection in time", Err: err}
	}
	return nil, &Problem{Kind: Unreachable, Words: fmt.Sprintf("cannot connect to %s: %v", t.Addr, err), Err: err}
}

// handshake does the TLS handshake.
func (t Target) handshake(ctx context.Context, raw net.Conn) (net.Conn, error) {
	secure := tls.Client(raw, t.config())
	err := secure.HandshakeContext(ctx)
	var header tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	switch {
	case err == nil && secure.ConnectionState().NegotiatedProtocol != "h2":
		return nil, &Problem{Kind: NotHTTP2,
			Words: t.Addr + " does not offer HTTP/2 in its TLS handshake (ALPN h2), which gRPC needs"}
	case err == nil:
		return secure, nil
	case errors.As(err, &header), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return nil, &Problem{Kind: NotTLS, Words: t.Addr + " does not speak TLS: leave out --tls", Err: err}
	case errors.As(err, &unknown):
		return nil, &Problem{Kind: BadConnection,
			Words: t.Addr + " has a certificate of an authority that is not trusted; --tls-ca FILE " +
				"adds its authority", Err: err}
	case errors.As(err, &host):
		return nil, &Problem{Kind: BadConnection,
			Words: fmt.Sprintf("%s has a certificate for another host: %v", t.Addr, err), Err: err}
	}
	return nil, &Problem{Kind: BadConnection, Words: fmt.Sprintf("the TLS handshake with %s failed: %v", t.Addr, err),
		Err: err}
}

func (t Target) config() *tls.Config {
	c := t.TLS.Clone()
	if c.ServerName == "" {
		c.ServerName, _, _ = net.SplitHostPort(t.Addr)
	}
	c.NextProtos = []string{"h2"}
	return c
}

// greet sends hello, and returns the server's first bytes: a frame's header, if it uses HTTP/2.
func greet(ctx context.Context, nc net.Conn) ([]byte, error) {
	if deadline, ok := ctx.Deadline(); ok {
		_ = nc.SetDeadline(deadline) // a connection that cannot have one fails at the next line
	}
	// The server may have closed it already with a reason, which is read.
	_, writing := io.WriteString(nc, hello)
	first := make([]byte, 9)
	n, err := io.ReadFull(nc, first)
	return first[:n], errors.Join(err, writing)
}

// wantsTLS reports whether a server that greeted in cleartext closes the connection because it requires TLS, as
// capgate does: it sends a GOAWAY with that reason in place of the PING's acknowledgement.
func wantsTLS(ctx context.Context, nc net.Conn, head []byte) bool {
	end := time.Now().Add(pingTime)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	_ = nc.SetDeadline(end)
	_, err := io.WriteString(nc, ping)
	in := io.LimitReader(nc, mostFrames)
	for head = bytes.Clone(head); err == nil; _, err = io.ReadFull(in, head) {
		length := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
		switch head[3] {
		case pingFrame:
			return false
		case goAwayFrame:
			text := make([]byte, min(length, mostFrames))
			_, err := io.ReadFull(in, text)
			return err == nil && length >= 8 && binary.BigEndian.Uint32(text[4:]) == inadequateSecurity
		}
		if _, err = io.CopyN(io.Discard, in, int64(length)); err != nil {
			return false
		}
	}
	return false
}

// speaksTLS reports whether a server that did not greet in HTTP/2 does so over TLS.
func (t Target) speaksTLS(ctx context.Context, first []byte) bool {
	if len(first) > 0 && first[0] == alertRecord {
		return true
	}
	return sniff.SpeaksTLS(ctx, t.dialTCP)
}

// aheadOfReader is the flow-control window of a stream, in bytes: the initial one of HTTP/2.
const aheadOfReader = 64 << 10

// Dial returns a gRPC channel to the target, without retries and proxies.
func (t Target) Dial() (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if t.TLS != nil {
		creds = credentials.NewTLS(t.config())
	}
	return grpc.NewClient("passthrough:///"+t.Addr,
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}),
		grpc.WithUserAgent(buildinfo.UserAgent("capgate-conform")),
		// or it would grow
		grpc.WithStaticStreamWindowSize(aheadOfReader), grpc.WithStaticConnWindowSize(64*aheadOfReader),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
}
