// Package smtptest is a small SMTP server for tests: over a real socket, with STARTTLS or TLS from the first byte, and
// with AUTH PLAIN and LOGIN. It stores the received messages. It can reject, and stop responding.
package smtptest

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strings"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// Message is a received message.
type Message struct {
	Hello, From string
	To          []string
	Text        string // with \n line ends
	TLS         bool
	User        string // authenticated user; "" if none
}

// Options configure a Server. The zero value is a server without TLS and authentication.
type Options struct {
	TLS      *tls.Config // nil: none
	Implicit bool        // TLS from the first byte, without STARTTLS
	Auth     string      // AUTH mechanisms, as in "LOGIN PLAIN"; "" for none
	User     string      // with Password, the only user that may send
	Password string
	// Answer returns the response to a client's line, such as "550 no"; "" selects the server's own. It may block.
	Answer func(line string) string
}

// Server is a running server.
type Server struct {
	Addr string
	opts Options
	came chan Message

	mu    sync.Mutex
	lines []string
	conns map[net.Conn]struct{}
}

// Start starts a server, which ends with the test.
func Start(t *testing.T, o Options) *Server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	s := &Server{Addr: ln.Addr().String(), opts: o, came: make(chan Message, 100), conns: map[net.Conn]struct{}{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns[conn] = struct{}{}
			s.mu.Unlock()
			running.Go(func() {
				defer func() { _ = conn.Close() }()
				(&session{server: s}).serve(conn)
			})
		}
	})
	check.Cleanup(t, func() {
		_ = ln.Close()
		s.mu.Lock()
		for conn := range s.conns {
			_ = conn.Close()
		}
		s.mu.Unlock()
		running.Wait()
	})
	return s
}

// Came returns a channel of the accepted messages.
func (s *Server) Came() <-chan Message { return s.came }

// Lines returns all lines of clients, except for messages.
func (s *Server) Lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.lines...)
}

// session is one connection.
type session struct {
	server *Server
	text   *textproto.Conn
	got    Message
}

func (c *session) serve(conn net.Conn) {
	if c.server.opts.Implicit {
		conn = tls.Server(conn, c.server.opts.TLS)
		c.got.TLS = true
	}
	c.text = textproto.NewConn(conn)
	c.reply("220 test")
	for {
		line, err := c.read()
		if err != nil {
			return
		}
		verb, _, _ := strings.Cut(strings.ToUpper(line), " ")
		if own := c.server.opts.Answer; own != nil {
			if answer := own(line); answer != "" {
				c.reply(answer)
				continue
			}
		}
		switch verb {
		case "QUIT":
			c.reply("221 bye")
			return
		case "STARTTLS":
			c.reply("220 go")
			conn = tls.Server(conn, c.server.opts.TLS)
			c.text, c.got = textproto.NewConn(conn), Message{TLS: true}
		case "DATA":
			if !c.data() {
				return
			}
		default:
			c.command(verb, line)
		}
	}
}

func (c *session) read() (string, error) {
	line, err := c.text.ReadLine()
	if err == nil {
		c.server.mu.Lock()
		c.server.lines = append(c.server.lines, line)
		c.server.mu.Unlock()
	}
	return line, err
}

func (c *session) reply(text string) { _ = c.text.PrintfLine("%s", text) }

func (c *session) command(verb, line string) {
	o := &c.server.opts
	switch {
	case verb == "EHLO":
		c.got.Hello = line[5:]
		c.reply("250-test")
		if o.TLS != nil && !c.got.TLS {
			c.reply("250-STARTTLS")
		}
		if o.Auth != "" {
			c.reply("250-AUTH " + o.Auth)
		}
		c.reply("250 8BITMIME")
	case verb == "AUTH":
		c.auth(strings.Fields(line)[1:])
	case verb == "MAIL" && o.User != "" && c.got.User == "":
		c.reply("530 sign in first")
	case verb == "MAIL":
		c.got.From = path(line)
		c.got.To = nil
		c.reply("250 ok")
	case verb == "RCPT":
		c.got.To = append(c.got.To, path(line))
		c.reply("250 ok")
	default:
		c.reply("502 what?")
	}
}

// path returns the address of MAIL FROM:<a> and RCPT TO:<a>.
func path(line string) string {
	_, line, _ = strings.Cut(line, "<")
	address, _, _ := strings.Cut(line, ">")
	return address
}

func (c *session) auth(words []string) {
	decode := func(text string) string {
		all, _ := base64.StdEncoding.DecodeString(text)
		return string(all)
	}
	var user, password string
	switch {
	case strings.EqualFold(words[0], "PLAIN") && len(words) == 2:
		all := strings.Split(decode(words[1]), "\x00")
		user, password = all[1], all[2]
	case strings.EqualFold(words[0], "LOGIN"):
		c.reply("334 " + base64.StdEncoding.EncodeToString([]byte("Username:")))
		text, _ := c.text.ReadLine()
		user = decode(text)
		c.reply("334 " + base64.StdEncoding.EncodeToString([]byte("Password:")))
		text, _ = c.text.ReadLine()
		password = decode(text)
	}
	if user != c.server.opts.User || password != c.server.opts.Password {
		c.reply("535 wrong password " + password) // a real server may repeat the client's input
		return
	}
	c.got.User = user
	c.reply("235 ok")
}

// data reads a message.
func (c *session) data() bool {
	c.reply("354 go")
	text, err := io.ReadAll(c.text.DotReader())
	if err != nil {
		return false
	}
	c.got.Text = string(text)
	c.server.came <- c.got
	c.reply(fmt.Sprintf("250 %d bytes", len(text)))
	return true
}
