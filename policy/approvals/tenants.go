package approvals

import "context"

// tenantsPage bounds the tenants of one page.
const tenantsPage = 1000

// Tenants lists tenants, a page at a time: at most most tenants after a position, and the position of the next page.
// The position "" is the beginning, and as a result the end. A page may leave out tenants without approvals.
type Tenants func(ctx context.Context, after string, most int) (page []string, next string, err error)

// Each calls f for each tenant.
func (t Tenants) Each(ctx context.Context, f func(tenant string)) error {
	return t.Pages(ctx, func(page []string) error {
		for _, tenant := range page {
			f(tenant)
		}
		return nil
	})
}

// Pages calls f for each page, until it returns an error.
func (t Tenants) Pages(ctx context.Context, f func(page []string) error) error {
	for after := ""; ; {
		page, next, err := t(ctx, after, tenantsPage)
		if err != nil {
			return err
		}
		if err = f(page); err != nil {
			return err
		}
		if after = next; after == "" {
			return nil
		}
	}
}
