package redisstore_test

import (
	"testing"

	"github.com/capgate/capgate/internal/mcpsession"
	"github.com/capgate/capgate/internal/mcpsession/storetest"
	"github.com/capgate/capgate/internal/redisstore"
)

// TestMCPSessions: levels of sessions are shared by replicas.
func TestMCPSessions(t *testing.T) {
	runContract(t, storetest.Suite(), func(s *redisstore.Store) mcpsession.Store { return s.MCPSessions() })
}
