package conform

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/container"
)

const (
	atOnce      = 32                     // concurrent calls
	givenUp     = 64                     // canceled uploads and downloads
	givenUpSlow = 16                     // canceled slow calls
	shortTime   = 300 * time.Millisecond // the deadline of a call that does not end by itself
)

// The largest messages: those that a gRPC server receives by default, and those that the orchestrator
// sends.
const (
	usualMessage  = 4 << 20
	largerMessage = 16 << 20
)

// checkLarge tries the sizes that a container must accept, and by default a larger one that it need not accept.
func checkLarge(ctx context.Context, r *run) error {
	largest := cmp.Or(r.Largest, usualMessage)
	for _, size := range []int{largest / 16, largest / 3, largest} {
		if err := r.large(ctx, size); err != nil {
			return err
		}
	}
	if r.Largest > 0 {
		return nil
	}
	if err := r.large(ctx, largerMessage); err != nil {
		return note(err.Error() + "; callers that send more than 4 MiB need a larger limit of received messages in " +
			"the server, and Selu's orchestrator sends up to 16 MiB")
	}
	return nil
}

// large calls an unknown tool with a message of the given size. Any response shows that the request arrived.
func (r *run) large(ctx context.Context, size int) error {
	q := container.Question{Tool: container.NoSuchTool, Session: session}
	// The size of the message without the padding, including the longer length of its field.
	other := proto.Size(r.client.Request(q)) + 16
	q.Args = []byte(`{"padding":"` + strings.Repeat("a", max(0, size-other-len(`{"padding":""}`))) + `"}`)
	_, err := r.client.Invoke(ctx, q)
	switch code := status.Code(err); code {
	case codes.ResourceExhausted, codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return fmt.Errorf("a request of %d KiB ends with %s", size>>10, container.Explain(err))
	}
	return nil
}

func checkConcurrent(ctx context.Context, r *run) error {
	if !r.good {
		return r.noGoodCall()
	}
	errs := make([]error, atOnce)
	var calls sync.WaitGroup
	for i := range errs {
		calls.Go(func() { errs[i] = r.again(ctx, r.question()) })
	}
	calls.Wait()
	failed := 0
	var first error
	for _, err := range errs {
		if err != nil {
			failed++
			first = err
		}
	}
	if first != nil {
		return fmt.Errorf("%d of %d calls at one time failed: %w", failed, atOnce, first)
	}
	return nil
}
