package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// sessionOwnerTTL is how long a session of an engine is its tenant's after it was last claimed.
	sessionOwnerTTL = 90 * 24 * time.Hour
	// ownersAtOnce is of how many sessions the owners are asked for in one pipeline.
	ownersAtOnce = 500
)

// EngineSessions know whose the sessions of engines are.
type EngineSessions struct{ client }

// EngineSessions returns them.
func (s *Store) EngineSessions() *EngineSessions { return &EngineSessions{s.client(Engines)} }

// claimSessionScript gives a session to a tenant, or says whose it is. ARGV: tenant, TTL in ms.
var claimSessionScript = newScript(`
	local owner = redis.call('GET', KEYS[1])
	if not owner then redis.call('SET', KEYS[1], ARGV[1]) end
	if not owner or owner == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
	return {owner or ARGV[1], owner and 0 or 1}`)

// Claim makes a session of a fleet of engines a tenant's if it was nobody's, and says whose it is. The
// owner is kept for 90 days after its last claim. It is "" of one whose tenant was deleted: nobody
// gets it then.
func (e *EngineSessions) Claim(
	ctx context.Context, fleet, session, tenant string,
) (owner string, claimed bool, err error) {
	said, err := e.run(ctx, claimSessionScript, []string{e.ownerKey(fleet, session)}, tenant,
		sessionOwnerTTL.Milliseconds()).Slice()
	if err != nil {
		return "", false, err
	}
	if len(said) != 2 {
		return "", false, errors.New("the script that claims sessions answers what cannot be")
	}
	return textAt(said, 0), said[1] == int64(1), nil
}

// Owners says whose sessions of a fleet of engines are, in their order; "" where they are nobody's.
func (e *EngineSessions) Owners(ctx context.Context, fleet string, sessions []string) ([]string, error) {
	owners := make([]string, 0, len(sessions))
	for len(sessions) > 0 {
		n := min(len(sessions), ownersAtOnce)
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
	return e.key(tag{"engines", "session", fleet, digest(session)}, "owner")
}
