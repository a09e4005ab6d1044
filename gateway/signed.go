package gateway

import (
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// keepTo refuses a call whose caller may do one thing only, if it is another. Which session the call is
// of, its signature says, and no header of the caller's.
func (t *transit) keepTo() *call.Refusal {
	if t.auth.only == nil {
		return nil
	}
	if t.fleet.Capability != t.auth.only.Capability || string(t.said().artifact) != t.auth.only.Artifact {
		return tenant.RefuseSignature()
	}
	if t.auth.only.Session == "" {
		t.stream.DropHeader(sessionHeader)
	} else {
		t.stream.SetHeader(sessionHeader, t.auth.only.Session)
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
	q := affinity.Query{Fleet: fleet, Tenant: who.Tenant, Artifacts: []string{id}, Bound: true}
	if a, known := g.cfg.Affinity.Find(&q); known {
		return a.Refusal
	}
	told := make(chan *call.Refusal, 1)
	g.cfg.Affinity.Ask(q.Own(), func(a affinity.Answer) { told <- a.Refusal })
	return <-told
}
