package admin

import (
	"context"

	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/operator"
)

// Record writes an action of the operator of a request to the audit log; nil means none. The names and values of
// its targets take turns.
func Record(ctx context.Context, log *audit.Log, what, tenant string, targets ...string) {
	log.RecordChange(&audit.Change{Actor: operator.NameOf(ctx, ""), What: what, Tenant: tenant,
		Targets: audit.Targets(targets...)})
}
