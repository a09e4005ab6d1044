package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/mail"

	"github.com/capgate/capgate/gateway/admin/approval"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/mailer"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/webhook"
)

// newWebhooks creates the deliverers of the approvals webhook and of notices.
func (p *process) newWebhooks(s *settings, metrics *telemetry.Metrics) error {
	p.webhooks = webhook.NewGroup()
	if err := p.setWebhooks(s.webhooks); err != nil {
		return err
	}
	metrics.WatchWebhooks(func() (all []telemetry.Webhook) {
		for _, d := range p.webhooks.All() {
			s := d.Stats()
			all = append(all, telemetry.Webhook{
				Destination: d.Name(),
				Events: map[string]int64{
					"delivered": s.Delivered, "dead": s.Dead, "late": s.Skipped, "dropped": s.Dropped,
				},
				Requests: map[string]int64{"failed": s.Failed, "retried": s.Retried},
				Queued:   s.Queued, Letters: s.Sizes.Dead,
			})
		}
		return all
	})
	return nil
}

// setWebhooks replaces the destinations of notices.
func (p *process) setWebhooks(all []webhook.Config) error {
	return p.webhooks.Replace(all, func(c webhook.Config) (*webhook.Deliverer, error) {
		d, err := webhook.New(p.store.Notices(c.Name), p.approvals, approval.JSON, c,
			webhook.Options{Tenants: p.pendingSource().Tenants, Log: p.log})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		return d, nil
	})
}

// letters returns the dead letters of all destinations, and of the webhook also while it is not configured.
func (p *process) letters() webhook.Letters {
	all := webhook.Letters{{Store: p.store.Webhooks()}}
	for _, d := range p.webhooks.All() {
		if name := d.Name(); name != webhook.Own {
			all = append(all, webhook.Outbox{Name: name, Store: p.store.Notices(name)})
		}
	}
	return all
}

// destinations returns the names of the destinations that there are.
func (p *process) destinations() (names []string) {
	for _, d := range p.webhooks.All() {
		names = append(names, d.Name())
	}
	return names
}

// lettersNow are the dead letters of the destinations that there are.
type lettersNow struct{ of *process }

// Dead implements admin.Letters.
func (l lettersNow) Dead(ctx context.Context, skip, most int) ([]webhook.Letter, error) {
	return l.of.letters().Dead(ctx, skip, most)
}

// Retry implements admin.Letters.
func (l lettersNow) Retry(ctx context.Context, id string) (bool, error) {
	return l.of.letters().Retry(ctx, id)
}

// readWebhooks reads the files of all destinations.
func readWebhooks(c *config.Approvals, files fingerprints) (all []webhook.Config, problems []error) {
	add := func(w webhook.Config, err error) {
		if all = append(all, w); err != nil {
			problems = append(problems, err)
		}
	}
	if c.Webhook.URL != "" {
		add(readWebhook("approvals.webhook", &c.Webhook, files))
	}
	for i := range c.Notices {
		add(readNotice(fmt.Sprintf("approvals.notices[%d]", i), &c.Notices[i], files))
	}
	return all, problems
}

// readNotice reads the files of a destination.
func readNotice(field string, n *config.Notice, files fingerprints) (w webhook.Config, err error) {
	of := n.Webhook
	if n.URLFile != "" {
		if of.URL, err = readURL(field, n, files); err != nil {
			return w, err
		}
	}
	if w, err = readWebhook(field, &of, files); err != nil {
		return w, err
	}
	w.Name, w.Tenants = n.Name, n.Tenants
	if n.Email.On {
		w.Format = webhook.Email
		w.Mail, err = readMail(field+".email", &n.Email, files)
	}
	return w, err
}

// readURL reads a URL that is a secret. The error does not quote it.
func readURL(field string, n *config.Notice, files fingerprints) (string, error) {
	text, err := files.read(n.URLFile)
	if err != nil {
		return "", fmt.Errorf("%s.url_file: %w", field, err)
	}
	check := config.CheckSecretURL
	if n.Format == "generic" {
		check = config.CheckWebhookURL
	}
	url := string(bytes.TrimSpace(text))
	if wrong := check(url); wrong != "" {
		return "", wrongFile(n.URLFile, "%s.url_file: %s: the URL %s", field, n.URLFile, wrong)
	}
	return url, nil
}

// readWebhook reads the signing keys of a webhook.
func readWebhook(field string, c *config.Webhook, files fingerprints) (webhook.Config, error) {
	w := webhook.Config{URL: c.URL, Timeout: c.Timeout, Attempts: c.Attempts}
	w.Format, _ = webhook.ParseFormat(c.Format)
	for _, event := range c.Events {
		w.Kinds = append(w.Kinds, approvals.Kind(event))
	}
	if c.Proxy {
		w.Proxy = http.ProxyFromEnvironment
	}
	if c.SecretFile == "" {
		return w, nil
	}
	text, err := files.read(c.SecretFile)
	if err != nil {
		return w, fmt.Errorf("%s.secret_file: %w", field, err)
	}
	if w.Secrets, err = webhook.ParseSecrets(text); err != nil {
		return w, wrongFile(c.SecretFile, "%s.secret_file: %s: %w", field, c.SecretFile, err)
	}
	return w, nil
}

// readMail reads the password and the authorities of a mail server.
func readMail(field string, c *config.Email, files fingerprints) (m *webhook.Mail, err error) {
	m = &webhook.Mail{Server: mailer.Server{Addr: c.Server, Username: c.Username}}
	m.Server.Security, _ = mailer.ParseSecurity(c.TLS)
	if c.CAFile != "" {
		m.Server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		if m.Server.TLS.RootCAs, err = certPool(c.CAFile, files); err != nil {
			return m, fmt.Errorf("%s.ca_file: %w", field, err)
		}
	}
	if c.PasswordFile != "" {
		password, err := files.read(c.PasswordFile)
		if err != nil {
			return m, fmt.Errorf("%s.password_file: %w", field, err)
		}
		if m.Server.Password = string(bytes.TrimRight(password, "\r\n")); m.Server.Password == "" {
			return m, wrongFile(c.PasswordFile, "%s.password_file: %s is empty", field, c.PasswordFile)
		}
	}
	from, err := mail.ParseAddress(c.From)
	if err != nil {
		return m, errors.New(field + ".from: is not an address") // which the decoder has checked
	}
	m.From = *from
	for _, text := range c.To {
		to, err := mail.ParseAddress(text)
		if err != nil {
			return m, errors.New(field + ".to: is not an address")
		}
		m.To = append(m.To, *to)
	}
	return m, nil
}
