package config

import (
	"net/mail"
	"strings"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// maxNotices bounds the destinations: each has an outbox in Redis, which replicas poll.
const maxNotices = 16

// checkNotices checks the destinations together.
func (c *Config) checkNotices(at strictyaml.At) {
	if n := len(c.Approvals.Notices); n > maxNotices {
		at.Fail("", "there are %d destinations; at most %d are allowed", n, maxNotices)
	}
}

func checkSMTPServer(v string) string {
	return checkHostPort(v, "the field tls has the security of the connection")
}

// checkMailbox accepts an address with or without a name. A header has it as it is, so its characters are ASCII.
func checkMailbox(v string) string {
	a, err := mail.ParseAddress(v)
	if err != nil || strings.ContainsFunc(a.Address, func(r rune) bool { return r <= ' ' || r > '~' }) ||
		strings.ContainsAny(a.Name, "\r\n") || len(v) > 320 {
		return "is not an address; write one as in ann@example.com, or Ann <ann@example.com>"
	}
	return ""
}
