package config

import (
	"net"
	"net/mail"
	"net/url"
	"strings"

	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/lib/weburl"
)

// Webhook is a URL that gets events of approvals.
type Webhook struct {
	// URL of a request for each event, as in https://hooks.example.com/approvals.
	URL string `yaml:"url" kind:"webhook_url"`
	// Form of the requests. generic: signed JSON. slack: for an incoming webhook of Slack. teams: for a webhook of
	// Teams Workflows.
	Format string `yaml:"format" enum:"generic,slack,teams" default:"generic"`
	// File with the secrets that sign requests, one a line: whsec_ and base64, or 24 bytes or more verbatim. All sign.
	// Required for generic requests; the others are not signed.
	SecretFile string `yaml:"secret_file" kind:"file"`
	// Events of requests.
	Events []string `yaml:"events" enum:"asked,answered,escalated,approved,denied,used,released,expired" unique:"true" default:"[asked]"`
	// environment uses the proxy of HTTPS_PROXY and HTTP_PROXY.
	Proxy bool `yaml:"proxy" enum:"none,environment" default:"none"`
}

// checkFormat checks that there is a secret where requests are signed, and none elsewhere.
func (w *Webhook) checkFormat(at strictyaml.At) {
	switch signed := w.Format == "generic"; {
	case signed && !at.Has("secret_file"):
		at.Missing("secret_file", "required: the file with the secrets that sign the requests")
	case !signed && at.Has("secret_file"):
		at.Fail("secret_file", "is only for the format generic; nobody verifies a signature of %s", w.Format)
	}
	if w.URL != "" && w.Format != "generic" {
		if wrong := CheckSecretURL(w.URL); wrong != "" {
			at.Fail("url", "%s", wrong)
		}
	}
}

// CheckSecretURL returns the problem of a URL whose holder may post to a channel, or "". It does not repeat the URL.
func CheckSecretURL(text string) string {
	if wrong := checkWebhookURL(text); wrong != "" {
		return wrong
	}
	if u, err := url.Parse(text); err == nil && weburl.IsCleartext(u) {
		return "must begin with https: the URL is a secret, and HTTP would send it in cleartext"
	}
	return ""
}

// CheckWebhookURL returns the problem of a webhook's URL, or "". It does not repeat the URL.
func CheckWebhookURL(text string) string { return checkWebhookURL(text) }

// Notice is a destination of events of approvals: a webhook, or mailboxes.
type Notice struct {
	// The destination's name in metrics, logs and dead letters: letters, digits, hyphens, dots and underscores, at most
	// 63.
	Name string `yaml:"name" kind:"name" required:"" unique:"true"`
	// Tenants of the approvals that it gets. Default all.
	Tenants []string `yaml:"tenants" kind:"tenant" unique:"true"`

	Webhook `yaml:",inline"`
	// File with the URL, in place of url, if the URL is a secret, as those of Slack and Teams are.
	URLFile string `yaml:"url_file" kind:"file"`
	// Mailboxes that get e-mail, in place of a URL.
	Email Email `yaml:"email"`
}

// Email is mailboxes, and the server that delivers to them.
type Email struct {
	On bool `yaml:",present"` // the file has the block
	// SMTP server that takes the messages, host:port, as in smtp.example.com:587.
	Server string `yaml:"server" kind:"smtp_server" required:""`
	// Security of the connection. starttls: required after the greeting; usual at port 587. implicit: TLS from the
	// first byte; usual at port 465. off: none, for a server of this machine.
	TLS string `yaml:"tls" enum:"starttls,implicit,off" default:"starttls"`
	// Authorities that may vouch for the server, PEM. Default the system's.
	CAFile string `yaml:"ca_file" kind:"file"`
	// Sender of the messages, as in Capgate <capgate@example.com>.
	From string `yaml:"from" kind:"mailbox" required:""`
	// Recipients, at most 50. All see each other.
	To []string `yaml:"to" kind:"mailbox" required:"" min:"1" max:"50" unique:"true"`
	// Name to sign in at the server. Default no sign-in.
	Username string `yaml:"username"`
	// File with the password.
	PasswordFile string `yaml:"password_file" kind:"file"`
}

// Check checks that a destination is of one kind.
func (n *Notice) Check(at strictyaml.At) {
	if !at.Has("email") {
		n.checkURL(at)
		return
	}
	for _, field := range []string{"url", "url_file", "format", "secret_file", "proxy"} {
		if at.Has(field) {
			at.Fail(field, "is of a webhook, and email is there, too; give one of the two")
		}
	}
}

// checkURL checks the fields of a destination that is a webhook.
func (n *Notice) checkURL(at strictyaml.At) {
	switch {
	case at.Has("url") && at.Has("url_file"):
		at.Fail("url_file", "url is there, too; give one of the two")
	case !at.Has("url") && !at.Has("url_file"):
		at.Missing("url", "required: a URL, or url_file, or email")
		return
	}
	n.checkFormat(at)
}

// Check checks the security of a connection, and that a password has its name.
func (e *Email) Check(at strictyaml.At) {
	if host, _, err := net.SplitHostPort(e.Server); err == nil && e.TLS == "off" && !weburl.IsLoopback(host) {
		at.Fail("tls", "off is only for a server of this machine, such as 127.0.0.1:25: messages have arguments of "+
			"calls")
	}
	if at.Has("username") != at.Has("password_file") {
		at.Fail("username", "username and password_file need each other")
	}
}

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
