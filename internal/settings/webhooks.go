package settings

import (
	"bytes"
	"crypto/tls"
	"fmt"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/tlsfiles"
	"github.com/capgate/capgate/policy/approvals/webhook"
)

// readWebhooks reads the files of all destinations.
func readWebhooks(c *config.Approvals, files Files) (all []webhook.Config, problems []error) {
	for i, w := range c.Notices {
		if err := readNotice(fmt.Sprintf("approvals.notices[%d]", i), &w, files); err != nil {
			problems = append(problems, err)
		}
		all = append(all, w)
	}
	return all, problems
}

// readNotice reads the files of a destination.
func readNotice(field string, w *webhook.Config, files Files) error {
	if w.URLFile != "" {
		if err := readURL(field, w, files); err != nil {
			return err
		}
	}
	if w.SecretFile != "" {
		text, err := files.Read(w.SecretFile)
		if err != nil {
			return fmt.Errorf("%s.secret_file: %w", field, err)
		}
		if w.Secrets, err = webhook.ParseSecrets(text); err != nil {
			return wrongFile(w.SecretFile, "%s.secret_file: %s: %w", field, w.SecretFile, err)
		}
	}
	return readMail(field+".email", &w.Mail, files)
}

// readURL reads a URL that is a secret. The error does not quote it.
func readURL(field string, w *webhook.Config, files Files) error {
	text, err := files.Read(w.URLFile)
	if err != nil {
		return fmt.Errorf("%s.url_file: %w", field, err)
	}
	w.URL = string(bytes.TrimSpace(text))
	if wrong := w.Format.CheckURL(w.URL); wrong != "" {
		return wrongFile(w.URLFile, "%s.url_file: %s: the URL %s", field, w.URLFile, wrong)
	}
	return nil
}

// readMail reads the password and the authorities of a mail server.
func readMail(field string, m *webhook.Mail, files Files) (err error) {
	if m.CAFile != "" {
		m.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		if m.TLS.RootCAs, err = tlsfiles.CertPool(m.CAFile, files); err != nil {
			return fmt.Errorf("%s.ca_file: %w", field, err)
		}
	}
	if m.PasswordFile == "" {
		return nil
	}
	password, err := files.Read(m.PasswordFile)
	if err != nil {
		return fmt.Errorf("%s.password_file: %w", field, err)
	}
	if m.Password = string(bytes.TrimRight(password, "\r\n")); m.Password == "" {
		return wrongFile(m.PasswordFile, "%s.password_file: %s is empty", field, m.PasswordFile)
	}
	return nil
}
