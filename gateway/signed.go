package gateway

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// restrict refuses a call whose caller may do one thing only, if it is another. Which session the call is
// of, its signature says, and no header of the caller's.
func restrict(t *filter.Call) *call.Refusal {
	if t.Principal.Only == nil {
		return nil
	}
	if t.Fleet.Capability != t.Principal.Only.Capability || string(t.Fields().Artifact) != t.Principal.Only.Artifact {
		return tenant.RefuseSignature()
	}
	if t.Principal.Only.Session == "" {
		t.Stream.DropHeader(sessionHeader)
	} else {
		t.Stream.SetHeader(sessionHeader, t.Principal.Only.Session)
	}
	return nil
}

// FindArtifact says whether there is an artifact for somebody, as a download would: nil, or why not.
// Without tenants there may be any. It waits for the store as long as a call does, about a second.
func (g *Gateway) FindArtifact(who tenant.Identity, capability, id string) *call.Refusal {
	fleet, refusal := g.cfg.Router.Table().Resolve(router.Key{Metadata: capability}, who.Settings)
	if refusal != nil || who.Settings == nil {
		return refusal
	}
	q := affinity.Query{Fleet: fleet, Tenant: who.Tenant, Artifacts: []string{id}, OwnedOnly: true}
	if a, known := g.cfg.Affinity.Lookup(&q); known {
		return a.Refusal
	}
	told := make(chan *call.Refusal, 1)
	g.cfg.Affinity.Resolve(q.Clone(), func(a affinity.Answer) { told <- a.Refusal })
	return <-told
}
