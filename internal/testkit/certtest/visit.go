package certtest

import (
	"crypto/tls"
	"io"
	"net"
)

// Visitor returns the configuration of a client that keeps its sessions.
func (a *Authority) Visitor(certs ...tls.Certificate) *tls.Config {
	return &tls.Config{RootCAs: a.Pool, ServerName: "127.0.0.1", Certificates: certs,
		ClientSessionCache: tls.NewLRUClientSessionCache(8)}
}

// Visit connects a client to a server, and reports whether it resumed a session. Each side sends a byte, so that the
// client has a ticket.
func Visit(t TB, server, client *tls.Config) (resumed bool) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = ln.Close() }()
	served := make(chan error, 1)
	go func() {
		nc, err := ln.Accept()
		if err == nil {
			tc, b := tls.Server(nc, server), make([]byte, 1)
			if _, err = tc.Read(b); err == nil {
				_, err = tc.Write(b)
			}
			_ = tc.Close()
		}
		served <- err
	}()
	c, err := tls.Dial("tcp", ln.Addr().String(), client)
	must(t, err)
	defer func() { _ = c.Close() }()
	_, err = c.Write([]byte{1})
	must(t, err)
	_, err = io.ReadFull(c, make([]byte, 1))
	must(t, err)
	must(t, <-served)
	return c.ConnectionState().DidResume
}

func must(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}
