// Package sniff finds out what protocol a server speaks, from its first bytes.
package sniff

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"time"
)

// Protocol is the cleartext protocol of a server.
type Protocol uint8

// The protocols.
const (
	Unknown Protocol = iota // it sent nothing, or nothing that is known
	HTTP2
	HTTP1
	TLS
)

const (
	// preface begins a connection of HTTP/2, with empty settings. Servers of HTTP/1 answer it with an error, and so do
	// servers of TLS.
	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

	patience = 2 * time.Second // for the first bytes
)

// Of returns the protocol of the server at the other end of a connection that dial opens. It ends with ctx.
func Of(ctx context.Context, dial func(context.Context) (net.Conn, error)) Protocol {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := dial(ctx)
	if err != nil {
		return Unknown
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // a connection that cannot have one fails at the next line
	}
	_, _ = io.WriteString(conn, preface) // the server may have closed it with a reason, which is read
	first := make([]byte, 9)
	n, _ := io.ReadFull(conn, first)
	found := ofBytes(first[:n])
	if found == Unknown && SpeaksTLS(ctx, dial) {
		return TLS
	}
	return found
}

// SpeaksTLS reports whether a server does a TLS handshake. It does not verify the certificate, as it sends nothing.
func SpeaksTLS(ctx context.Context, dial func(context.Context) (net.Conn, error)) bool {
	conn, err := dial(ctx)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"},
		MinVersion: tls.VersionTLS12}) //nolint:gosec // only detects TLS; nothing is sent
	return secure.HandshakeContext(ctx) == nil
}

// ofBytes returns the protocol that begins with these bytes.
func ofBytes(first []byte) Protocol {
	const alert, settings = 0x15, 0x04 // of TLS and of HTTP/2
	switch {
	case bytes.HasPrefix(first, []byte("HTTP/1")):
		return HTTP1
	case len(first) >= 3 && first[0] == alert && first[1] == 3:
		return TLS
	case len(first) == 9 && first[0] == 0 && first[3] == settings:
		return HTTP2
	}
	return Unknown
}
