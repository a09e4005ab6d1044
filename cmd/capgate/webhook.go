package main

import (
	"fmt"
	"net/http"

	"github.com/capgate/capgate/gateway/admin/approval"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/webhook"
)

// newWebhook creates the deliverer of the approvals webhook, if one is configured.
func (p *process) newWebhook(s *settings, metrics *telemetry.Metrics) (err error) {
	if s.webhook == nil {
		return nil
	}
	p.webhook, err = webhook.New(p.store.Webhooks(), p.approvals, approval.JSON, *s.webhook,
		webhook.Options{Tenants: []string{tenant.Default}, Log: p.log})
	if err != nil {
		return fmt.Errorf("approvals.webhook: %w", err)
	}
	metrics.WatchWebhook(func() telemetry.Webhook {
		s := p.webhook.Stats()
		return telemetry.Webhook{
			Events:   map[string]int64{"delivered": s.Delivered, "dead": s.Dead, "late": s.Skipped, "dropped": s.Dropped},
			Requests: map[string]int64{"failed": s.Failed, "retried": s.Retried},
			Queued:   s.Queued, Letters: s.Sizes.Dead,
		}
	})
	return nil
}

// readWebhook reads the webhook's signing keys; nil: no webhook.
func readWebhook(c *config.Webhook, files fingerprints) (*webhook.Config, error) {
	if c.URL == "" {
		return nil, nil
	}
	text, err := files.read(c.SecretFile)
	if err != nil {
		return nil, fmt.Errorf("approvals.webhook.secret_file: %w", err)
	}
	w := &webhook.Config{URL: c.URL, Timeout: c.Timeout, Attempts: c.Attempts}
	if w.Secrets, err = webhook.ParseSecrets(text); err != nil {
		return nil, wrongFile(c.SecretFile, "approvals.webhook.secret_file: %s: %w", c.SecretFile, err)
	}
	for _, event := range c.Events {
		w.Kinds = append(w.Kinds, approvals.Kind(event))
	}
	if c.Proxy {
		w.Proxy = http.ProxyFromEnvironment
	}
	return w, nil
}
