package mailer

import (
	"net/smtp"
)

// auth is AUTH PLAIN (RFC 4616) or LOGIN, which some servers have alone. The connection is over TLS, or to this
// machine.
type auth struct {
	mechanism, username, password string
	asked                         int
}

// Start implements smtp.Auth.
func (a *auth) Start(*smtp.ServerInfo) (mechanism string, first []byte, err error) {
	if a.mechanism == "PLAIN" {
		return a.mechanism, []byte("\x00" + a.username + "\x00" + a.password), nil
	}
	return a.mechanism, nil, nil
}

// Next implements smtp.Auth. The prompts of LOGIN vary; their order does not.
func (a *auth) Next(_ []byte, more bool) ([]byte, error) {
	if !more {
		return nil, nil
	}
	a.asked++
	switch {
	case a.mechanism == "LOGIN" && a.asked == 1:
		return []byte(a.username), nil
	case a.mechanism == "LOGIN" && a.asked == 2:
		return []byte(a.password), nil
	}
	return nil, errPrompt
}
