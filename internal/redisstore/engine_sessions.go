package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// sessionOwnerTTL is the lifetime of the owner of a session after its last claim.
	sessionOwnerTTL = 90 * 24 * time.Hour
	// ownersBatch is the number of owners that one pipeline reads.
	ownersBatch = 500
)

// EngineSessions stores the tenants that own sessions of engines.
type EngineSessions struct{ client }

// EngineSessions returns the store of the owners of sessions.
func (s *Store) EngineSessions() *EngineSessions { return &EngineSessions{s.client(Engines)} }

var claimSessionScript = newScript("engine_sessions_claim")

// Claim makes a tenant the owner of a session of a fleet of engines if it has none, and returns the owner. The owner
// is kept for 90 days after its last claim. It is "" after the owner was deleted; then the session stays without one.
func (e *EngineSessions) Claim(
	ctx context.Context, fleet, session, tenant string,
) (owner string, claimed bool, err error) {
	r := e.read(ctx, claimSessionScript, []string{e.ownerKey(fleet, session)}, tenant, sessionOwnerTTL.Milliseconds())
	return r.text(), r.int() == 1, r.end()
}

// Owners returns the owners of sessions of a fleet of engines, in the order of the sessions; "" is none.
func (e *EngineSessions) Owners(ctx context.Context, fleet string, sessions []string) ([]string, error) {
	owners := make([]string, 0, len(sessions))
	for len(sessions) > 0 {
		n := min(len(sessions), ownersBatch)
		some, err := e.owners(ctx, fleet, sessions[:n])
		if err != nil {
			return nil, err
		}
		owners, sessions = append(owners, some...), sessions[n:]
	}
	return owners, nil
}

func (e *EngineSessions) owners(ctx context.Context, fleet string, sessions []string) (owners []string, err error) {
	err = e.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		cmds, _ := r.Pipelined(ctx, func(pipe redis.Pipeliner) error { // the error is one of a command
			for _, session := range sessions {
				pipe.Get(ctx, e.ownerKey(fleet, session))
			}
			return nil
		})
		for i, cmd := range cmds {
			switch err := cmd.Err(); {
			case redis.HasErrorPrefix(err, "WRONGTYPE"):
				e.malformed(e.ownerKey(fleet, sessions[i]))
				owners = append(owners, "")
			case failed(err):
				return err
			default:
				owners = append(owners, cmd.(*redis.StringCmd).Val())
			}
		}
		return nil
	})
	return owners, err
}

func (e *EngineSessions) ownerKey(fleet, session string) string {
	return e.key("{engines:session:FLEET:SUM}:owner", fleet, digest(session))
}
