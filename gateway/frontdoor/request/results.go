package request

import "context"

// Results accounts for the memory of the responses that a request holds until it ends. It is safe for concurrent use.
type Results interface {
	// Reserve reserves n more bytes for the owner of the request, or returns false.
	Reserve(n int64) bool
	// Release returns n bytes before the request ends.
	Release(n int64)
	// Exceeded returns the error of a response without room, as a gRPC status.
	Exceeded() error
}

type resultsKey struct{}

// ResultsKey returns the key of a context's Results, for With.
func ResultsKey() any { return resultsKey{} }

// ResultsOf returns the Results of the request of ctx; nil means no limit.
func ResultsOf(ctx context.Context) Results {
	r, _ := ctx.Value(resultsKey{}).(Results)
	return r
}

// SmallResult is the maximum size of a response that is not charged: the fixed cost of a request covers it.
const SmallResult = 16 << 10

// HoldResult charges n bytes of a response before the request of ctx holds them. The error is a gRPC status: the owner
// of the request has reached its share of the memory.
func HoldResult(ctx context.Context, n int) error {
	if n <= SmallResult {
		return nil
	}
	if r := ResultsOf(ctx); r != nil && !r.Reserve(int64(n)) {
		return r.Exceeded()
	}
	return nil
}

// HoldFor is HoldResult for the time in which the response is written. The caller must call release afterwards.
func HoldFor(ctx context.Context, n int) (release func(), err error) {
	r := ResultsOf(ctx)
	if n <= SmallResult || r == nil {
		return func() {}, nil
	}
	if err := HoldResult(ctx, n); err != nil {
		return nil, err
	}
	return func() { r.Release(int64(n)) }, nil
}

// Growing is a response that grows piece by piece.
type Growing struct{ held int }

// growth is the step by which a growing response is charged, in bytes.
const growth = 64 << 10

// HoldAll is Hold for what a response holds that outlives its handler: its fixed cost covers nothing of it.
func (g *Growing) HoldAll(ctx context.Context, n int) error {
	if n <= g.held {
		return nil
	}
	if r := ResultsOf(ctx); r != nil && !r.Reserve(int64(n-g.held)) {
		return r.Exceeded()
	}
	g.held = n
	return nil
}

// Hold charges the response before it has n bytes. The error is that of HoldResult.
func (g *Growing) Hold(ctx context.Context, n int) error {
	if n <= g.held || n <= SmallResult {
		return nil
	}
	more := (n - g.held + growth - 1) / growth * growth
	if err := HoldResult(ctx, more); err != nil {
		return err
	}
	g.held += more
	return nil
}
