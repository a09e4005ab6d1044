package webhook

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/mail"
	"net/url"
	"slices"
	"time"

	"github.com/capgate/capgate/internal/lib/mailer"
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
	Email                 // e-mail
)

// ParseFormat parses the name of a format of requests.
func ParseFormat(name string) (Format, bool) {
	f, ok := map[string]Format{"generic": Generic, "slack": Slack, "teams": Teams}[name]
	return f, ok
}

// Config is a destination and the events it gets. All but its name may change while a Deliverer runs.
type Config struct {
	Name     string
	Format   Format
	URL      string           // see [weburl.Parse]; "" for Email
	Secrets  [][]byte         // see ParseSecrets; at least one for Generic, else none
	Mail     *Mail            // of Email
	Tenants  []string         // tenants of the events; nil: all
	Kinds    []approvals.Kind // of delivered events; default: creation alone
	Timeout  time.Duration    // of one request; default 10 s
	Attempts int              // maximum number of requests for one event; default 10

	Proxy func(*http.Request) (*url.URL, error) // nil: none
	TLS   *tls.Config                           // of https; nil: the system's CAs
}

// Mail is where e-mail goes.
type Mail struct {
	Server mailer.Server
	From   mail.Address
	To     []mail.Address
}

func (c *Config) setDefaults() error {
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	if c.Attempts == 0 {
		c.Attempts = 10
	}
	if len(c.Kinds) == 0 {
		c.Kinds = []approvals.Kind{approvals.EventCreated}
	}
	switch {
	case c.Format == Email && (c.Mail == nil || len(c.Mail.To) == 0):
		return errors.New("e-mail needs a recipient")
	case c.Format == Email:
		return nil
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
func (c *Config) wantsKind(kind approvals.Kind) bool { return slices.Contains(c.Kinds, kind) }
