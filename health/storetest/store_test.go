package storetest_test

import (
	"testing"
	"time"

	"github.com/capgate/capgate/health/storetest"
)

func TestStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Suite().Run(t, func() storetest.Shared { return storetest.New(time.Now) })
}
