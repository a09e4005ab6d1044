package engine

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// Question is an open question as the engine's web page shows it.
type Question struct{ ID, Session, Tool, Args string }

// Questions returns the open questions, as the engine's web page shows them. Over gRPC, published engines send no id.
func (e *Engine) Questions() (all []Question) {
	e.approvals.mu.Lock()
	defer e.approvals.mu.Unlock()
	for _, w := range e.approvals.waiting {
		all = append(all, w.Question)
	}
	return all
}

// approvals holds the open questions.
type approvals struct {
	mu      sync.Mutex
	waiting map[string]waiting
}

type waiting struct {
	Question

	answer chan bool
}

func newApprovals() *approvals { return &approvals{waiting: map[string]waiting{}} }

// open creates a question about an action. forget deletes it.
func (a *approvals) open(of action) (id string, answer <-chan bool) {
	ch := make(chan bool, 1)
	id = rand.Text()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting[id] = waiting{Question{id, of.session, of.tool, of.args}, ch}
	return id, ch
}

func (a *approvals) forget(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, id)
}

// resolve answers a question. Only the first answer counts.
func (a *approvals) resolve(id string, approved bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	w, ok := a.waiting[id]
	if ok {
		delete(a.waiting, id)
		w.answer <- approved
	}
	return ok
}

// approved asks all readers of the session and waits for the first answer.
func (e *Engine) approved(ctx context.Context, a action, request *openparallaxv1.ActionRequest,
	verdict *openparallaxv1.Verdict) bool {
	id, answer := e.approvals.open(a)
	defer e.approvals.forget(id)
	late := time.NewTimer(e.cfg.ApprovalTimeout)
	defer late.Stop()
	event := a.event(openparallaxv1.PipelineEventType_PIPELINE_EVENT_UNSPECIFIED)
	if e.cfg.ApprovalIDs {
		event = a.event(openparallaxv1.PipelineEventType_APPROVAL_NEEDED)
		event.ApprovalNeeded = &openparallaxv1.ApprovalNeeded{
			ApprovalId: id, Action: request, ShieldAssessment: verdict,
			ContextSummary: a.tool + " " + a.args, TimeoutAt: e.cfg.Now().Add(e.cfg.ApprovalTimeout).Unix(),
		}
	}
	e.readers.broadcast(event)
	select {
	case yes := <-answer:
		return yes
	case <-late.C:
	case <-ctx.Done():
	}
	return false
}
