// Package mailer hands e-mail to an SMTP server (RFC 5321): one message a connection, over TLS.
//
//	mailer.go  the session
//	auth.go    AUTH PLAIN and LOGIN
//	limited.go a bound of what the server sends
//	errors.go  reasons of failures, without texts of the server
//
// The package queues nothing and repeats nothing. It is written for the standard library's net/smtp, which escapes the
// lines of a message and rejects addresses with line breaks; a larger library would add nothing that a relay needs.
package mailer
