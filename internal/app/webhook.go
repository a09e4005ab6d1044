package app

import (
	"context"
	"fmt"

	"github.com/capgate/capgate/gateway/admin/approval"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/policy/approvals/webhook"
)

// newWebhooks creates the deliverers of the approvals webhook and of notices.
func (p *App) newWebhooks(s *settings.Settings, metrics *telemetry.Metrics) error {
	p.webhooks = webhook.NewGroup()
	if err := p.setWebhooks(s.Webhooks); err != nil {
		return err
	}
	return metrics.Add(p.webhooks)
}

// setWebhooks replaces the destinations of notices.
func (p *App) setWebhooks(all []webhook.Config) error {
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
func (p *App) letters() webhook.Letters {
	all := webhook.Letters{{Store: p.store.Webhooks()}}
	for _, d := range p.webhooks.All() {
		if name := d.Name(); name != webhook.Own {
			all = append(all, webhook.Outbox{Name: name, Store: p.store.Notices(name)})
		}
	}
	return all
}

// destinations returns the names of the destinations that there are.
func (p *App) destinations() (names []string) {
	for _, d := range p.webhooks.All() {
		names = append(names, d.Name())
	}
	return names
}

// lettersNow are the dead letters of the destinations that there are.
type lettersNow struct{ of *App }

// Dead implements admin.Letters.
func (l lettersNow) Dead(ctx context.Context, skip, most int) ([]webhook.Letter, error) {
	return l.of.letters().Dead(ctx, skip, most)
}

// Retry implements admin.Letters.
func (l lettersNow) Retry(ctx context.Context, id string) (bool, error) {
	return l.of.letters().Retry(ctx, id)
}
