package app

import (
	"crypto/rand"

	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/telemetry"
)

// newIdempotency returns the service of idempotency keys, which stores responses.
func (p *App) newIdempotency(s *settings.Settings, metrics *telemetry.Metrics) (err error) {
	cfg := s.Config.Idempotency
	o := idempotency.Options{Keys: s.IdempotencyKeys, TTL: cfg.TTL, MaxAnswer: cfg.MaxAnswer, MaxKeys: cfg.MaxKeys}
	if len(o.Keys) == 0 {
		o.Keys = s.ApprovalKeys
	}
	if len(o.Keys) == 0 && p.store.Stats().Embedded { // stored responses end with this process
		key := make([]byte, aead.KeyBytes)
		_, _ = rand.Read(key) // never fails
		o.Keys = [][]byte{key}
	}
	if p.idempotency, err = idempotency.New(p.store.Idempotency(), o); err != nil {
		return err
	}
	return metrics.Add(p.idempotency)
}
