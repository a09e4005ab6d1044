package app

import "github.com/capgate/capgate/router/affinity"

// affinityFeature keeps the calls of a session at one backend.
func affinityFeature() feature {
	var sessions *affinity.Resolver
	return feature{
		build: func(p *App) error {
			sessions = affinity.New(affinity.Config{Log: p.log}, p.store.Sessions())
			p.parts.Routing.Affinity = sessions
			return nil
		},
		run: func(_ *App, w *work) { w.watch(sessions.Run) },
	}
}
