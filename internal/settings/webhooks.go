package settings

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/mail"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/mailer"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/webhook"
)

// readWebhooks reads the files of all destinations.
func readWebhooks(c *config.Approvals, files Files) (all []webhook.Config, problems []error) {
	add := func(w webhook.Config, err error) {
		if all = append(all, w); err != nil {
			problems = append(problems, err)
		}
	}
	for i := range c.Notices {
		add(readNotice(fmt.Sprintf("approvals.notices[%d]", i), &c.Notices[i], files))
	}
	return all, problems
}

// readNotice reads the files of a destination.
func readNotice(field string, n *config.Notice, files Files) (w webhook.Config, err error) {
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
func readURL(field string, n *config.Notice, files Files) (string, error) {
	text, err := files.Read(n.URLFile)
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
func readWebhook(field string, c *config.Webhook, files Files) (webhook.Config, error) {
	w := webhook.Config{URL: c.URL}
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
	text, err := files.Read(c.SecretFile)
	if err != nil {
		return w, fmt.Errorf("%s.secret_file: %w", field, err)
	}
	if w.Secrets, err = webhook.ParseSecrets(text); err != nil {
		return w, wrongFile(c.SecretFile, "%s.secret_file: %s: %w", field, c.SecretFile, err)
	}
	return w, nil
}

// readMail reads the password and the authorities of a mail server.
func readMail(field string, c *config.Email, files Files) (m *webhook.Mail, err error) {
	m = &webhook.Mail{Server: mailer.Server{Addr: c.Server, Username: c.Username}}
	m.Server.Security, _ = mailer.ParseSecurity(c.TLS)
	if c.CAFile != "" {
		m.Server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		if m.Server.TLS.RootCAs, err = CertPool(c.CAFile, files); err != nil {
			return m, fmt.Errorf("%s.ca_file: %w", field, err)
		}
	}
	if c.PasswordFile != "" {
		password, err := files.Read(c.PasswordFile)
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
