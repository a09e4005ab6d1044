package redisstore

import (
	"context"
	"encoding/json"

	"github.com/capgate/capgate/internal/mcpsession"
)

// MCPSessions holds the levels and subscriptions of sessions of MCP. It is an mcpsession.Store.
type MCPSessions struct{ client }

// MCPSessions returns the store of sessions of MCP.
func (s *Store) MCPSessions() *MCPSessions { return &MCPSessions{s.client(Session)} }

var (
	getLevelScript = newScript("mcpsessions_get")
	setLevelScript = newScript("mcpsessions_set")

	getURIsScript     = newScript("mcpsessions_uris")
	subscribeScript   = newScript("mcpsessions_subscribe")
	unsubscribeScript = newScript("mcpsessions_unsubscribe")
)

// keysOf returns the keys of the level of a session.
func (s *MCPSessions) keysOf(of mcpsession.Key) []string {
	return []string{s.key("{TENANT:mcp}:[UID:]level:SUM", of.Tenant, of.UID, digest(of.ID)),
		s.key("{TENANT:mcp}:[UID:]levels", of.Tenant, of.UID)}
}

// member returns the name of a session in the tenant's list.
func member(of mcpsession.Key) string { return digest(of.Owner) + ":" + digest(of.ID) }

// Level implements mcpsession.Store.
func (s *MCPSessions) Level(ctx context.Context, of mcpsession.Key) (string, error) {
	return s.run(ctx, getLevelScript, s.keysOf(of), member(of), mcpsession.TTL.Milliseconds()).Text()
}

// SetLevel implements mcpsession.Store.
func (s *MCPSessions) SetLevel(ctx context.Context, of mcpsession.Key, level string) error {
	set, err := s.run(ctx, setLevelScript, s.keysOf(of), member(of), mcpsession.TTL.Milliseconds(), level,
		mcpsession.MaxSessions, s.channel("mcpsessions"), message(mcpsession.Change{Key: of, Level: level})).Int()
	if err == nil && set == 0 {
		return mcpsession.ErrFull
	}
	return err
}

// message returns the published text of a change.
func message(c mcpsession.Change) []byte {
	text, _ := json.Marshal(c) // strings alone
	return text
}

// urisOf returns the keys of the subscriptions of a session.
func (s *MCPSessions) urisOf(of mcpsession.Key) []string {
	return []string{s.key("{TENANT:mcp}:[UID:]uris:SUM", of.Tenant, of.UID, digest(of.ID)),
		s.key("{TENANT:mcp}:[UID:]subscribers", of.Tenant, of.UID)}
}

// URIs implements mcpsession.Store.
func (s *MCPSessions) URIs(ctx context.Context, of mcpsession.Key) ([]string, error) {
	return s.run(ctx, getURIsScript, s.urisOf(of), member(of), mcpsession.URITTL.Milliseconds()).StringSlice()
}

// Subscribe implements mcpsession.Store.
func (s *MCPSessions) Subscribe(ctx context.Context, of mcpsession.Key, uri string) error {
	set, err := s.run(ctx, subscribeScript, s.urisOf(of), member(of), mcpsession.URITTL.Milliseconds(), uri,
		mcpsession.MaxURIs, mcpsession.MaxURIBytes, mcpsession.MaxSessions, s.channel("mcpsessions"),
		message(mcpsession.Change{Key: of})).Int()
	if err == nil && set == 0 {
		return mcpsession.ErrFull
	}
	return err
}

// Unsubscribe implements mcpsession.Store.
func (s *MCPSessions) Unsubscribe(ctx context.Context, of mcpsession.Key, uri string) error {
	return s.run(ctx, unsubscribeScript, s.urisOf(of), member(of), uri, s.channel("mcpsessions"),
		message(mcpsession.Change{Key: of})).Err()
}

// Watch implements mcpsession.Store.
func (s *MCPSessions) Watch(ctx context.Context, changed func(mcpsession.Change), missed func()) {
	channel := s.channel("mcpsessions")
	s.subscribe(ctx, channel, func(text string) {
		var c mcpsession.Change
		if json.Unmarshal([]byte(text), &c) != nil {
			s.malformed(channel)
			return
		}
		changed(c)
	}, missed)
}

var _ mcpsession.Store = (*MCPSessions)(nil)
