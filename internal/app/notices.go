package app

import (
	"context"
	"fmt"

	"github.com/capgate/capgate/gateway/admin/approval"
	"github.com/capgate/capgate/gateway/admin/webhooks"
	"github.com/capgate/capgate/policy/approvals/webhook"
)

// noticesFeature delivers events of approvals.
func noticesFeature() feature {
	return feature{
		build: buildNotices,
		apply: func(p *App, c *change) {
			if c.reloaded {
				_ = p.setWebhooks(c.Webhooks) // the file's reader has checked them
			}
		},
		run: func(p *App, w *work) { w.watch(p.approvals.webhooks.Run) },
	}
}

func buildNotices(p *App) error {
	p.approvals.webhooks = webhook.NewGroup()
	if err := p.setWebhooks(p.started.Webhooks); err != nil {
		return err
	}
	p.parts.services = append(p.parts.services, webhooks.New(lettersNow{p}, p.destinations, p.audit))
	return p.metrics.Add(p.approvals.webhooks)
}

// setWebhooks replaces the destinations of notices.
func (p *App) setWebhooks(all []webhook.Config) error {
	return p.approvals.webhooks.Replace(all, func(c webhook.Config) (*webhook.Deliverer, error) {
		d, err := webhook.New(p.store.Notices(c.Name), p.approvals.service, approval.JSON, c,
			webhook.Options{Tenants: p.pendingSource().Tenants, Log: p.log})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		return d, nil
	})
}

// letters returns the dead letters of all destinations.
func (p *App) letters() (all webhook.Letters) {
	for _, d := range p.approvals.webhooks.All() {
		all = append(all, webhook.Outbox{Name: d.Name(), Store: p.store.Notices(d.Name())})
	}
	return all
}

// destinations returns the names of the destinations that there are.
func (p *App) destinations() (names []string) {
	for _, d := range p.approvals.webhooks.All() {
		names = append(names, d.Name())
	}
	return names
}

// lettersNow are the dead letters of the destinations that there are.
type lettersNow struct{ of *App }

// Dead implements webhooks.Letters.
func (l lettersNow) Dead(ctx context.Context, skip, most int) ([]webhook.Letter, error) {
	return l.of.letters().Dead(ctx, skip, most)
}

// Retry implements webhooks.Letters.
func (l lettersNow) Retry(ctx context.Context, id string) (bool, error) {
	return l.of.letters().Retry(ctx, id)
}
