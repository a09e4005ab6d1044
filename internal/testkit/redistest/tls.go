package redistest

import (
	"crypto/tls"

	"github.com/capgate/capgate/internal/testkit/certtest"
)

// TLS is another route to the server, over TLS. The certificate is for 127.0.0.1 and signed by authority.
func (s *Server) TLS() (p *Proxy, authority []byte) {
	s.t.Helper()
	by := certtest.New(s.t)
	listener, err := tls.Listen("tcp", "127.0.0.1:0",
		&tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{by.Server(s.t)}})
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	return serve(s.t, listener, "unix", s.socket), []byte(by.PEM)
}
