package main

import (
	"slices"
	"strings"

	"github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/engine/turns"
)

// newEngines makes what replicas share of OpenParallax engines. An engine is called by the name of its fleet
// and its address, as in engine.Passage.
func (p *process) newEngines() {
	queue := func(name string) int {
		fleet, _, _ := strings.Cut(name, " ")
		if f := p.routing.Table().Fleet(fleet); f != nil && f.Engine() != nil {
			return f.Engine().Queue
		}
		return 0
	}
	p.turns = turns.New(p.store.Turns(), turns.Options{Queue: queue})
}

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
