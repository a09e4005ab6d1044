package rest

import (
	"context"
	"time"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/semaphore"
	"github.com/capgate/capgate/internal/lib/tokenbucket"
)

// Limits of the work for documents.
const (
	gatheredAtOnce = 2    // for all owners; one per owner
	maxGathers     = 32   // waiting requests of one owner
	toolsBurst     = 5000 // tools that an owner may list at once
	toolsEvery     = time.Second / 200
	maxPaced       = 4096 // owners; the least recent one is dropped
)

// pace limits the number of tools that are listed for the documents of each owner. Listing a tool costs about 25 µs of
// CPU. It is safe for concurrent use.
type pace struct {
	slots  *semaphore.Semaphore
	owners *tokenbucket.Keyed // the tools that each may have listed
}

func newPace() *pace {
	return &pace{slots: semaphore.New(gatheredAtOnce, maxGathers),
		owners: tokenbucket.NewKeyed(maxPaced, toolsBurst, toolsEvery)}
}

// begin waits for the owner's turn. The caller must call end with the number of listed tools.
func (p *pace) begin(ctx context.Context, owner string) (end func(tools int), err error) {
	if wait := p.owners.Of(owner).FullIn(time.Now()) - toolsBurst*toolsEvery; wait > 0 {
		return nil, tooManyDocuments(wait)
	}
	release, err := p.slots.Acquire(ctx, owner)
	switch {
	case ctx.Err() != nil:
		return nil, status.ContextError(ctx.Err(), call.Answered)
	case err != nil:
		return nil, tooManyDocuments(time.Second)
	}
	return func(tools int) {
		release()
		p.owners.Of(owner).Spend(time.Now(), tools+1)
	}, nil
}

// tooManyDocuments returns the refusal of a request for a document.
func tooManyDocuments(wait time.Duration) error {
	const text = "too many OpenAPI documents were requested in a short time; keep the document for a while"
	return status.Answer(&call.Refusal{Kind: call.ResourceExhausted, Reason: "DOCUMENTS_LIMITED", Message: text,
		RetryAfter: wait}).Err()
}
