package main

import (
	"slices"

	"github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/engine/turns"
)

// newEngines makes what replicas share of OpenParallax engines.
func (p *process) newEngines() { p.turns = turns.New(p.store.Turns(), turns.Options{}) }

func (p *process) engines() engine.Shared {
	return engine.Shared{Turns: p.turns, Sessions: p.store.EngineSessions(), Approvals: p.approvals, Questions: p.store.Questions()}
}

// engineIDs are those of all fleets of engines, sorted.
func (p *process) engineIDs() (ids []string) {
	for _, f := range p.routing.Table().Fleets() {
		if f.Engine() != nil {
			ids = append(ids, f.Capability)
		}
	}
	slices.Sort(ids)
	return ids
}
