package config_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/mailer"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/webhook"
)

// TestWebhookValues: each problem of a webhook has its line and field, and none repeats a secret.
func TestWebhookValues(t *testing.T) {
	t.Parallel()
	_, err := config.Parse("f", []byte(
		"fleets: [{capability: a, backends: ['b:1']}]\napprovals:\n  notices:\n  - name: n\n"+
			"    url: 'http://u:secret@h/'\n    secret_file: s\n    events: [asked, made, asked]\n    proxy: "+
			"'http://p'\n"+"    token: x\n"))
	if err == nil || strings.Contains(err.Error(), "secret@") {
		t.Fatal(err)
	}
	matchLines(t, strings.Split(err.Error(), "\n"), []string{
		`f:5: approvals.notices[0].url: must have neither a user nor`,
		`f:7: approvals.notices[0].events[1]: "made" is not possible; it must be asked, answered, escalated, approved, denied`,
		`f:7: approvals.notices[0].events[2]: asked is already at approvals.notices[0].events[0], in line 7`,
		`f:8: approvals.notices[0].proxy: "http://p" is not possible; it must be none or environment`,
		`f:9: approvals.notices[0].token: unknown field`})
}

// TestParseNotices: destinations of each kind, with their defaults.
func TestParseNotices(t *testing.T) {
	t.Parallel()
	got, err := config.Parse("f", []byte(`
fleets: [{capability: a, backends: ['b:1']}]
approvals:
  notices:
    - {name: ops, format: teams, url: 'https://t/x?sig=y', tenants: [acme]}
    - {name: dev, format: slack, url: 'http://127.0.0.1:1/x', events: [asked, escalated]}
    - {name: log, url: 'http://h', secret_file: s}
    - {name: mail, email: {server: 'localhost:25', tls: off, from: 'A <a@b.c>', to: [d@e.f]}}
`))
	check.Must(t, err)
	asked, defaultTLS := []approvals.Kind{"asked"}, webhook.Mail{Security: mailer.StartTLS}
	want := []webhook.Config{
		{Name: "ops", Tenants: []string{"acme"}, URL: "https://t/x?sig=y", Format: webhook.Teams, Events: asked,
			Mail: defaultTLS},
		{Name: "dev", URL: "http://127.0.0.1:1/x", Format: webhook.Slack, Events: append(asked, "escalated"),
			Mail: defaultTLS},
		{Name: "log", URL: "http://h", SecretFile: "s", Events: asked, Mail: defaultTLS},
		{Name: "mail", Events: asked, Mail: webhook.Mail{On: true, Server: "localhost:25", Security: mailer.Off,
			From: "A <a@b.c>", To: []string{"d@e.f"}}},
	}
	if !reflect.DeepEqual(got.Approvals.Notices, want) {
		t.Errorf("got  %+v\nwant %+v", got.Approvals.Notices, want)
	}
}

// TestWrongNotices: each problem has its line and field, and none repeats a URL.
func TestWrongNotices(t *testing.T) {
	t.Parallel()
	const mail = "server: 'smtp.example.com:587', from: a@b.c, to: [d@e.f]"
	for entry, want := range map[string]string{
		"{name: a}":                  ".url: required",
		"{name: a, url: 'http://h'}": ".secret_file: required",
		"{name: a, url_file: u, url: 'http://h', secret_file: s}": ".url_file: url is there, too",
		"{name: a, format: slack, url_file: u, secret_file: s}": ".secret_file: is only " +
			"for the format generic", "{name: a, format: slack, url: " +
			"'http://hidden.example/hidden'}": ".url: must begin with https",
		"{name: a, format: teams, url: 'ftp://hidden.example/hidden'}": ".url: is not an HTTP URL",
		"{name: a, format: irc, url_file: u}":                          `.format: "irc" is not possible`,
		"{name: a, url_file: u, secret_file: s, tenants: ['a b']}":     `.tenants[0]: "a b" is not a tenant`,
		"{name: a, url_file: u, secret_file: s, events: [asked, asked]}": ".events[1]: asked is " +
			"already at", "{name: a, email: {" + mail +
			", tls: off}}": ".email.tls: off is only for a server of this machine",
		"{name: a, email: {" + mail + ", username: u}}":            ".email.username: username and password_file need",
		"{name: a, email: {" + mail + "}, format: slack}":          ".format: belongs to a webhook, but this notice",
		"{name: a, email: {" + mail + "}, url_file: u}":            ".url_file: belongs to a webhook",
		"{name: a, email: {server: 'h:587', from: a@b.c, to: []}}": ".email.to: required",
		"{name: a, email: {server: 'h:587', from: 'a', to: [d@e.f]}}": ".email.from: is not an " +
			"address", "{name: a, email: {server: 'h:587', from: a@b.c, to: [\"d@e.f\\r\\nBcc: " +
			"x@y.z\"]}}": ".email.to[0]: is not an address",
		"{name: a, email: {server: 'h:587', from: a@b.c, to: ['d@é.f']}}":  ".email.to[0]: is not an address",
		"{name: a, email: {server: 'smtp://h', from: a@b.c, to: [d@e.f]}}": ".email.server: write host:port",
	} {
		_, err := config.Parse("f", []byte("fleets: [{capability: a, backends: ['b:1']}]\napprovals:\n  notices:\n  - "+
			entry+"\n"))
		if err == nil || !strings.Contains(err.Error(), "f:4: approvals.notices[0]"+want) ||
			strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", entry, err)
		}
	}
	many := "fleets: [{capability: a, backends: ['b:1']}]\napprovals:\n  notices:\n" +
		strings.Repeat("  - {name: a, format: slack, url_file: u}\n", 17)
	if _, err := config.Parse("f", []byte(many)); err == nil || !strings.Contains(err.Error(), "at most 16") ||
		!strings.Contains(err.Error(), "approvals.notices[1].name: a is already at") {
		t.Errorf("too many: %v", err)
	}
}
