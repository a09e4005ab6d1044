package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
)

// maxSubAgents is the number of sub-agents, including ended ones whose answers are kept.
const maxSubAgents = 100

// subAgents holds the sub-agents that the agent has started.
type subAgents struct {
	mu    sync.Mutex
	all   map[string]*subAgent
	order []string // names, oldest first
}

type subAgent struct {
	name, task, session string
	token               string // "" once used
	messages            []string
	ended               chan struct{}
	result              string
	err                 error
}

func newSubAgents() *subAgents { return &subAgents{all: map[string]*subAgent{}} }

func (s *subAgents) create(session, task string) (name, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.order) == maxSubAgents {
		s.all[s.order[0]].end("", errors.New("replaced by a newer sub-agent"))
		delete(s.all, s.order[0])
		s.order = s.order[1:]
	}
	a := &subAgent{name: "worker-" + rand.Text()[:8], task: task, session: session, token: rand.Text(),
		ended: make(chan struct{})}
	s.all[a.name] = a
	s.order = append(s.order, a.name)
	return a.name, a.token
}

func (s *subAgents) register(token string) (a subAgent, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.all {
		if token != "" && a.token == token {
			a.token = ""
			return *a, true
		}
	}
	return subAgent{}, false
}

func (s *subAgents) tell(name, message string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.all[name]
	if !ok {
		return fmt.Errorf("sub-agent %.64q not found", name)
	}
	a.messages = append(a.messages, message)
	a.messages = a.messages[max(0, len(a.messages)-maxMessages):]
	return nil
}

func (s *subAgents) poll(name string) (message string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.all[name]
	if a == nil || len(a.messages) == 0 {
		return "", false
	}
	message, a.messages = a.messages[0], a.messages[1:]
	return message, true
}

// session returns the session that receives a sub-agent's events, unless the sub-agent has ended.
func (s *subAgents) session(name string) (session string, working bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.all[name]
	if a == nil || a.hasEnded() {
		return "", false
	}
	return a.session, true
}

func (s *subAgents) finish(name, result string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.all[name]; a != nil {
		a.end(result, err)
	}
}

func (a *subAgent) hasEnded() bool {
	select {
	case <-a.ended:
		return true
	default:
		return false
	}
}

// end ends a sub-agent. It does nothing if the sub-agent has ended.
func (a *subAgent) end(result string, err error) {
	if !a.hasEnded() {
		a.result, a.err = result, err
		close(a.ended)
	}
}

func (s *subAgents) wait(ctx context.Context, name string) (string, error) {
	s.mu.Lock()
	a := s.all[name]
	s.mu.Unlock()
	if a == nil {
		return "", fmt.Errorf("sub-agent %.64q not found", name)
	}
	select {
	case <-a.ended:
		return a.result, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
