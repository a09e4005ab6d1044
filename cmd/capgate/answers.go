package main

import (
	"crypto/rand"

	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/telemetry"
)

// newAnswers makes what keeps the answers of calls with idempotency keys.
func (p *process) newAnswers(s *settings, metrics *telemetry.Metrics) (err error) {
	cfg := s.cfg.Idempotency
	o := idempotency.Options{Keys: s.answerKeys, TTL: cfg.TTL, MaxAnswer: cfg.MaxAnswer, MaxKeys: cfg.MaxKeys}
	if len(o.Keys) == 0 {
		o.Keys = s.approvalKeys
	}
	if len(o.Keys) == 0 && p.store.Stats().Embedded { // what it keeps ends with this process
		key := make([]byte, aead.KeyBytes)
		_, _ = rand.Read(key) // which does not fail
		o.Keys = [][]byte{key}
	}
	if p.answers, err = idempotency.New(p.store.Idempotency(), o); err != nil {
		return err
	}
	metrics.WatchIdempotency(func() telemetry.Idempotency { return telemetry.Idempotency(p.answers.Stats()) })
	return nil
}
