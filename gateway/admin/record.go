package admin

import (
	"context"

	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/operator"
)

// Record writes an action of the request's operator to the audit log. If log is nil, nothing is recorded. Names and
// values of targets alternate.
func Record(ctx context.Context, log *audit.Log, what, tenant string, targets ...string) {
	log.RecordChange(&audit.Change{Actor: operator.NameOf(ctx, ""), What: what, Tenant: tenant,
		Targets: audit.Targets(targets...)})
}
