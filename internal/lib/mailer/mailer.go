package mailer

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/smtp"
	"strings"
)

// Security is the protection of a connection.
type Security uint8

// The kinds of security.
const (
	StartTLS Security = iota // a cleartext greeting, then TLS, without which nothing is sent (RFC 3207)
	Implicit                 // TLS from the first byte (RFC 8314)
	Off                      // cleartext, to a server of this machine only
)

// Server is an SMTP server.
type Server struct {
	Addr     string // host:port
	Security Security
	TLS      *tls.Config // nil: the system's CAs
	Username string      // "": no authentication
	Password string

	// Dial connects to Addr; nil: a net.Dialer does.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Message is a message with its envelope. The addresses are plain: user@example.com.
type Message struct {
	From string
	To   []string
	Text []byte // RFC 5322, with CRLF line ends
}

// Send hands in a message, until ctx ends, and returns the number of recipients that the server rejected, while it
// accepted others. The error is an *Error.
func (s *Server) Send(ctx context.Context, m *Message) (rejected int, err error) {
	c, err := s.connect(ctx)
	if err != nil {
		return 0, ended(ctx, "connect", err)
	}
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	defer func() { _ = c.Close() }()
	if err = s.authenticate(c); err != nil {
		return 0, ended(ctx, "AUTH", err)
	}
	if err = c.Mail(m.From); err != nil {
		return 0, ended(ctx, "MAIL", err)
	}
	for _, to := range m.To {
		if err = c.Rcpt(to); err == nil {
			continue
		}
		if rejected++; rejected == len(m.To) || !isReply(err) {
			return 0, ended(ctx, "RCPT", err)
		}
	}
	w, err := c.Data()
	if err != nil {
		return 0, ended(ctx, "DATA", err)
	}
	if _, err = w.Write(m.Text); err == nil {
		err = w.Close()
	}
	if err != nil {
		return 0, ended(ctx, "DATA", err)
	}
	_ = c.Quit() // the server has the message
	return rejected, nil
}

// connect connects and greets. Nothing secret is sent before TLS.
func (s *Server) connect(ctx context.Context) (_ *smtp.Client, err error) {
	host, _, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return nil, errAddress
	}
	dial := s.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, "tcp", s.Addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		if !stop() && err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			_ = conn.Close()
		}
	}()
	if remote, is := conn.RemoteAddr().(*net.TCPAddr); s.Security == Off && (!is || !remote.IP.IsLoopback()) {
		return nil, errCleartext
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.TLS != nil {
		secure = s.TLS.Clone()
	}
	secure.ServerName = host
	local := conn.LocalAddr()
	conn = &limitedConn{conn, maxAnswers}
	if s.Security == Implicit {
		inner := tls.Client(conn, secure)
		if err = inner.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		conn = inner
	}
	c, err := smtp.NewClient(conn, host)
	if err != nil {
		return nil, err
	}
	if err = c.Hello(literal(local)); err != nil || s.Security != StartTLS {
		return c, err
	}
	if offered, _ := c.Extension("STARTTLS"); !offered {
		return nil, errNoStartTLS
	}
	return c, c.StartTLS(secure)
}

// literal is this machine's name in a greeting: its address (RFC 5321 §4.1.3).
func literal(a net.Addr) string {
	tcp, is := a.(*net.TCPAddr)
	switch {
	case !is:
		return "localhost"
	case tcp.IP.To4() == nil:
		return "[IPv6:" + tcp.IP.String() + "]"
	}
	return "[" + tcp.IP.String() + "]"
}

func (s *Server) authenticate(c *smtp.Client) error {
	if s.Username == "" {
		return nil
	}
	_, offered := c.Extension("AUTH")
	for mechanism := range strings.FieldsSeq(strings.ToUpper(offered)) {
		if mechanism == "PLAIN" || mechanism == "LOGIN" {
			return c.Auth(&auth{mechanism: mechanism, username: s.Username, password: s.Password})
		}
	}
	return errNoAuth
}

// ended returns the error of a command. A connection that was closed since ctx has ended is a matter of ctx.
func ended(ctx context.Context, command string, err error) error {
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return failed(command, err)
}

var (
	errAddress    = errors.New("the server's address is invalid")
	errCleartext  = errors.New("the server is on another machine, and without TLS")
	errNoStartTLS = errors.New("the server does not offer STARTTLS")
	errNoAuth     = errors.New("the server offers neither AUTH PLAIN nor AUTH LOGIN")
	errPrompt     = errors.New("the server's question is not one of AUTH LOGIN")
)
