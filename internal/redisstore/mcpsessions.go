package redisstore

import (
	"context"

	"github.com/capgate/capgate/internal/mcpsession"
)

// MCPSessions holds the levels of sessions of MCP. It is an mcpsession.Store.
type MCPSessions struct{ client }

// MCPSessions returns the store of sessions of MCP.
func (s *Store) MCPSessions() *MCPSessions { return &MCPSessions{s.client(Session)} }

var (
	getLevelScript = newScript("mcpsessions_get")
	setLevelScript = newScript("mcpsessions_set")
)

// keysOf returns the keys of a session.
func (s *MCPSessions) keysOf(of mcpsession.Key) []string {
	return []string{s.key("{TENANT:mcp}:[UID:]level:SUM", of.Tenant, of.UID, digest(of.ID)),
		s.key("{TENANT:mcp}:[UID:]levels", of.Tenant, of.UID)}
}

// Level implements mcpsession.Store.
func (s *MCPSessions) Level(ctx context.Context, of mcpsession.Key) (string, error) {
	return s.run(ctx, getLevelScript, s.keysOf(of), digest(of.ID), mcpsession.TTL.Milliseconds()).Text()
}

// SetLevel implements mcpsession.Store.
func (s *MCPSessions) SetLevel(ctx context.Context, of mcpsession.Key, level string) error {
	set, err := s.run(ctx, setLevelScript, s.keysOf(of), digest(of.ID), mcpsession.TTL.Milliseconds(), level,
		mcpsession.MaxSessions, s.channel("mcplevels"), of.ID).Int()
	if err == nil && set == 0 {
		return mcpsession.ErrFull
	}
	return err
}

// Watch implements mcpsession.Store.
func (s *MCPSessions) Watch(ctx context.Context, changed func(id string), missed func()) {
	s.subscribe(ctx, s.channel("mcplevels"), changed, missed)
}

var _ mcpsession.Store = (*MCPSessions)(nil)
