package webhook

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"net/mail"
	"net/url"
	"slices"
	"time"

	"github.com/capgate/capgate/internal/lib/mailer"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/lib/weburl"
	"github.com/capgate/capgate/policy/approvals"
)

// Format is the form of what a destination gets.
type Format uint8

// The formats.
const (
	Generic Format = iota // signed JSON, as the API has it
	Slack                 // a message of Block Kit
	Teams                 // an Adaptive Card
)

func (f Format) String() string { return [...]string{"generic", "slack", "teams"}[f] }

// CheckURL returns the problem of the URL of a destination, or "". It does not repeat the URL, which may contain a
// secret: its holder may post to a channel.
func (f Format) CheckURL(text string) string {
	if _, err := weburl.Parse(text, "https://hooks.example.com/approvals"); err != nil {
		return err.Error()
	}
	if u, err := url.Parse(text); err == nil && f != Generic && weburl.IsCleartext(u) {
		return "must begin with https: the URL is a secret, and HTTP would send it in cleartext"
	}
	return ""
}

// Config is a destination of events: a webhook, or mailboxes. All but its name may change while a
// Deliverer runs.
type Config struct {
	// The destination's name in metrics, logs and dead letters: letters, digits, hyphens, dots and underscores, at most
	// 63.
	Name string `yaml:"name" kind:"name" required:"" unique:"true"`
	// Tenants of the events that it gets. Default all.
	Tenants []string `yaml:"tenants" kind:"tenant" unique:"true"`
	// URL of a request for each event, as in https://hooks.example.com/approvals.
	URL string `yaml:"url" kind:"webhook_url"`
	// Form of the requests. generic: signed JSON. slack: for an incoming webhook of Slack. teams: for a webhook of
	// Teams Workflows.
	Format Format `yaml:"format" enum:"generic,slack,teams" default:"generic"`
	// File with the secrets that sign requests, one a line: whsec_ and base64, or 24 bytes or more verbatim. All sign.
	// Required for generic requests; the others are not signed.
	SecretFile string `yaml:"secret_file" kind:"file"`
	// Events of requests: those of approvals, and limit.near if 80% of a tenant's calls of a day or a month are used.
	Events []approvals.Kind `yaml:"events" enum:"asked,answered,escalated,approved,denied,used,released,expired,limit.near" unique:"true" default:"[asked]"`
	// environment uses the proxy of HTTPS_PROXY and HTTP_PROXY.
	Proxy bool `yaml:"proxy" enum:"none,environment" default:"none"`
	// File with the URL, in place of url, if the URL is a secret, as those of Slack and Teams are.
	URLFile string `yaml:"url_file" kind:"file"`
	// Mailboxes that get e-mail, in place of a URL.
	Mail Mail `yaml:"email"`

	Secrets  [][]byte      `yaml:"-"` // see ParseSecrets; at least one for Generic, else none
	Timeout  time.Duration `yaml:"-"` // of one request; default 10 s
	Attempts int           `yaml:"-"` // maximum number of requests for one event; default 10
	TLS      *tls.Config   `yaml:"-"` // of https; nil: the system's CAs
}

// Mail is mailboxes, and the server that delivers to them.
type Mail struct {
	On bool `yaml:",present"` // the destination is Mail, not a URL
	// SMTP server that takes the messages, host:port, as in smtp.example.com:587.
	Server string `yaml:"server" kind:"smtp_server" required:""`
	// Security of the connection. starttls: required after the greeting; usual at port 587. implicit: TLS from the
	// first byte; usual at port 465. off: none, for a server of this machine.
	Security mailer.Security `yaml:"tls" enum:"starttls,implicit,off" default:"starttls"`
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

	Password string      `yaml:"-"`
	TLS      *tls.Config `yaml:"-"` // nil: the system's CAs
}

// Check checks that a destination is of one kind.
func (c *Config) Check(at strictyaml.At) {
	if !at.Has("email") {
		c.checkURL(at)
		return
	}
	for _, field := range []string{"url", "url_file", "format", "secret_file", "proxy"} {
		if at.Has(field) {
			at.Fail(field, "belongs to a webhook, but this notice has email, too; give one of the two")
		}
	}
}

// checkURL checks the URL of a webhook, that there is a secret where requests are signed, and none elsewhere.
func (c *Config) checkURL(at strictyaml.At) {
	switch {
	case at.Has("url") && at.Has("url_file"):
		at.Fail("url_file", "url is there, too; give one of the two")
	case !at.Has("url") && !at.Has("url_file"):
		at.Missing("url", "required: a URL, or url_file, or email")
		return
	}
	switch signed := c.Format == Generic; {
	case signed && !at.Has("secret_file"):
		at.Missing("secret_file", "required: the file with the secrets that sign the requests")
	case !signed && at.Has("secret_file"):
		at.Fail("secret_file", "is only for the format generic; %s does not verify signatures", c.Format)
	}
	if c.URL != "" {
		if wrong := c.Format.CheckURL(c.URL); wrong != "" {
			at.Fail("url", "%s", wrong)
		}
	}
}

// Check checks the security of a connection, and that a password has its name.
func (m *Mail) Check(at strictyaml.At) {
	if host, _, err := net.SplitHostPort(m.Server); err == nil && m.Security == mailer.Off && !weburl.IsLoopback(host) {
		at.Fail("tls", "off is only for a server of this machine, such as 127.0.0.1:25: messages have arguments of "+
			"calls")
	}
	if at.Has("username") != at.Has("password_file") {
		at.Fail("username", "username and password_file need each other")
	}
}

// addresses parses the addresses of the sender and of the recipients.
func (m *Mail) addresses() (from mail.Address, to []mail.Address, err error) {
	all := make([]mail.Address, 0, 1+len(m.To))
	for _, text := range append([]string{m.From}, m.To...) {
		a, err := mail.ParseAddress(text)
		if err != nil {
			return from, nil, errors.New("e-mail: a mailbox is not an address")
		}
		all = append(all, *a)
	}
	return all[0], all[1:], nil
}

func (c *Config) setDefaults() error {
	c.Timeout, c.Attempts = cmp.Or(c.Timeout, 10*time.Second), cmp.Or(c.Attempts, 10)
	if len(c.Events) == 0 {
		c.Events = []approvals.Kind{approvals.EventCreated}
	}
	switch {
	case c.Mail.On && len(c.Mail.To) == 0:
		return errors.New("e-mail needs a recipient")
	case c.Mail.On:
		_, _, err := c.Mail.addresses()
		return err
	case c.Format == Generic && len(c.Secrets) == 0:
		return errors.New("a webhook needs a secret")
	}
	_, err := weburl.Parse(c.URL, "https://hooks.example.com/approvals")
	return err
}

// wants reports whether the destination gets the events of a tenant.
func (c *Config) wants(tenant string) bool {
	return c.Tenants == nil || slices.Contains(c.Tenants, tenant)
}

// wantsKind reports whether the destination gets events of a kind.
func (c *Config) wantsKind(kind approvals.Kind) bool { return slices.Contains(c.Events, kind) }
