package storetest_test

import (
	"testing"

	"github.com/capgate/capgate/internal/ratelimit/daily"
	"github.com/capgate/capgate/internal/ratelimit/daily/storetest"
)

// TestMemory: the store in memory passes the suite.
func TestMemory(t *testing.T) {
	t.Parallel()
	storetest.Suite().Run(t, func() daily.Store { return &storetest.Memory{} })
}
