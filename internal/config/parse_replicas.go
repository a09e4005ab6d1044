package config

import (
	"strings"
	"time"
	"unicode"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

func (p *parser) replicas(at strictyaml.Place) {
	r := &p.config.Replicas
	p.Mapping(at, map[string]strictyaml.Field{
		"id":        p.Text(&r.ID, checkReplica),
		"heartbeat": p.Duration(&r.Heartbeat, 200*time.Millisecond),
		"reconcile": p.Duration(&r.Reconcile, time.Second),
		"stale":     p.Duration(&r.Stale, 5*time.Second),
	})
	for name, limit := range map[string]struct{ is, most time.Duration }{
		"heartbeat": {r.Heartbeat, time.Minute},
		"reconcile": {r.Reconcile, 10 * time.Minute},
		"stale":     {r.Stale, time.Hour},
	} {
		if limit.is > limit.most {
			p.Fail(at.Child(name), "%s is too long; it must be at most %s", limit.is, limit.most)
		}
	}
}

// checkReplica returns the problem of a replica's name, or "".
func checkReplica(v string) string {
	switch {
	case v == "" || len(v) > 128:
		return "a replica's id has 1 to 128 bytes"
	case strings.ContainsFunc(v, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		return "a replica's id has no spaces"
	}
	return ""
}
