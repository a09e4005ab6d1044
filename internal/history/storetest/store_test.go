package storetest_test

import (
	"testing"

	"github.com/capgate/capgate/internal/history"
	"github.com/capgate/capgate/internal/history/storetest"
)

// TestMemory: the store in memory passes the suite.
func TestMemory(t *testing.T) {
	t.Parallel()
	storetest.Suite().Run(t, func() history.Store { return &storetest.Memory{} })
}
