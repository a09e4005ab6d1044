package app

import (
	"crypto/rand"

	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/lib/sharedkey"
)

// idempotencyFeature stores the responses of calls with idempotency keys.
func idempotencyFeature() feature {
	var answers *idempotency.Service
	return feature{
		build: func(p *App) (err error) {
			o := p.started.Config.Idempotency
			o.Keys = sharedkey.Derive(p.started.Secrets, "responses")
			if len(o.Keys) == 0 && p.store.Stats().Embedded { // stored responses end with this process
				key := make([]byte, sharedkey.Bytes)
				_, _ = rand.Read(key) // never fails
				o.Keys = [][]byte{key}
			}
			if answers, err = idempotency.New(p.store.Idempotency(), o); err != nil {
				return err
			}
			p.parts.Routing.Idempotency = answers
			return p.metrics.Add(answers)
		},
		run: func(_ *App, w *work) {
			w.loop("idempotency", answers.Run)
			w.served = append(w.served, answers.Close)
		},
	}
}
