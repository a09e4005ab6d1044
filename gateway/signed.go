package gateway

import (
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// FindArtifact returns nil if who may download an artifact, and else the refusal. Without tenants, every artifact is
// assumed to exist. FindArtifact waits for the store as long as a call does, about a second.
func (g *Gateway) FindArtifact(who tenant.Identity, capability, id string) *call.Refusal {
	fleet, refusal := g.cfg.Routing.Router.Table().Resolve(router.Key{Metadata: capability}, &who)
	if refusal != nil || who.Settings == nil {
		return refusal
	}
	q := affinity.Query{Fleet: fleet, Tenant: who.Tenant, UID: who.Settings.UID(), Artifacts: []string{id},
		OwnedOnly: true}
	if a, known := g.cfg.Routing.Affinity.Lookup(&q); known {
		return a.Refusal
	}
	told := make(chan *call.Refusal, 1)
	g.cfg.Routing.Affinity.Resolve(q.Clone(), func(a affinity.Answer) { told <- a.Refusal })
	return <-told
}
