package approval_test

import (
	"context"
	"runtime/pprof"

	"github.com/capgate/capgate/policy/approvals"
)

// followed reports when the subscription to changes of approvals has started. A watch of all tenants that begins
// earlier receives an event that it missed some.
type followed struct {
	approvals.Store
	subscribed func()
}

func (f followed) Watch(ctx context.Context, changed func(approvals.Notification), connected func()) {
	f.Store.Watch(ctx, changed, func() {
		connected()
		f.subscribed()
	})
}

// outside keeps goroutines of the Redis client from counting as the gateway's.
type outside struct{ *approvals.Service }

func (o outside) Get(ctx context.Context, tenantName, id string) (approvals.Approval, error) {
	pprof.SetGoroutineLabels(context.Background())
	return o.Service.Get(ctx, tenantName, id)
}

func (o outside) List(ctx context.Context, tenantName string, f approvals.Filter, after string,
	most int) ([]approvals.Approval, string, error) {
	pprof.SetGoroutineLabels(context.Background())
	return o.Service.List(ctx, tenantName, f, after, most)
}

func (o outside) Events(ctx context.Context, tenantName, after string, f func(approvals.Event) error) error {
	pprof.SetGoroutineLabels(context.Background())
	return o.Service.Events(ctx, tenantName, after, f)
}
