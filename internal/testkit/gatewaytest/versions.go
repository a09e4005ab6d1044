package gatewaytest

import (
	"context"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/catalog"
)

// KeepVersions stores the versions of the tools of a catalog, and returns when those of a capability are stored.
func KeepVersions(t testing.TB, c *catalog.Catalog, to catalog.Versions, capability string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	kept := saving{to, make(chan string, 10)}
	ended := make(chan struct{})
	go func() { c.KeepVersions(ctx, kept); close(ended) }()
	defer func() { stop(); <-ended }()
	for check.Received(t, kept.saved, "a version to be saved") != capability {
	}
}

// saving sends the capabilities whose versions are saved.
type saving struct {
	catalog.Versions
	saved chan string
}

func (v saving) Save(ctx context.Context, capability string, versions map[string]catalog.Version) error {
	err := v.Versions.Save(ctx, capability, versions)
	v.saved <- capability
	return err
}
