package redisstore

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/router/affinity"
)

var claimArtifactScript = newScript("artifacts_claim")

// StoreLocations implements affinity.Store.
func (s *Sessions) StoreLocations(ctx context.Context, holdings []affinity.Location) (kept []bool, err error) {
	if kept, err = s.claimArtifacts(ctx, holdings); err != nil {
		return nil, err
	}
	err = s.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		cmds, _ := r.Pipelined(ctx, func(pipe redis.Pipeliner) error { // the error is one of a command
			for i, h := range holdings {
				mode := "NX"
				if h.Authoritative {
					mode = ""
				}
				if kept[i] {
					pipe.SetArgs(ctx, s.artifactKey(h.Artifact), h.Addr, redis.SetArgs{Mode: mode, TTL: h.TTL})
				}
			}
			return nil
		})
		for _, cmd := range cmds {
			if err := cmd.Err(); failed(err) {
				return err
			}
		}
		return nil
	})
	return kept, err
}

// claimArtifacts returns which locations to store, and makes their tenants the owners of artifacts without one. A
// tenant always has the artifacts that it uploaded, even if another tenant uploaded the same.
func (s *Sessions) claimArtifacts(ctx context.Context, holdings []affinity.Location) (kept []bool, err error) {
	kept = make([]bool, len(holdings))
	firsts := make([]*redis.Cmd, len(holdings))
	err = s.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		_, err := r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, h := range holdings {
				if kept[i] = !h.OwnedOnly || h.Authoritative; h.OwnedOnly {
					firsts[i] = claimArtifactScript.lua.Eval(ctx, pipe, []string{s.artifactOwnerKey(h.Artifact)},
						h.Artifact.Tenant, h.TTL.Milliseconds())
				}
			}
			return nil
		})
		return err
	})
	for i, first := range firsts {
		if first != nil && err == nil {
			var n int
			n, err = first.Int()
			kept[i] = kept[i] || n == 1
		}
	}
	return kept, err
}

// maxAddr exceeds the length of any host:port, in bytes.
const maxAddr = 300

// Locate implements affinity.Store.
func (s *Sessions) Locate(ctx context.Context, a affinity.Artifact) (string, error) {
	key := s.artifactKey(a)
	addr, err := fetch(ctx, s.client, redis.Cmdable.Get, key)
	switch {
	case errors.Is(err, redis.Nil):
		return "", nil
	case redis.HasErrorPrefix(err, "WRONGTYPE"), err == nil && (addr == "" || len(addr) > maxAddr):
		s.malformed(key)
		return "", nil
	}
	return addr, err
}

func (s *Sessions) artifactKey(a affinity.Artifact) string {
	return s.key("{TENANT:artifact:CAP:SUM}", a.Tenant, a.Capability, digest(a.ID))
}

func (s *Sessions) artifactOwnerKey(a affinity.Artifact) string {
	return s.key("{artifacts:CAP:SUM}:first", a.Capability, digest(a.ID))
}
