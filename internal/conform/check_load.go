package conform

import (
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

// checkLarge calls an unknown tool: any response shows that the request arrived.
func checkLarge(ctx context.Context, r *run) error {
	for _, size := range []int{r.Largest / 16, r.Largest / 3, r.Largest} {
		q := container.Question{Tool: container.NoSuchTool, Session: session}
		// The size of the message without the padding, including the longer length of its field.
		other := proto.Size(r.client.Request(q)) + 16
		q.Args = []byte(`{"padding":"` + strings.Repeat("a", max(0, size-other-len(`{"padding":""}`))) + `"}`)
		_, err := r.client.Invoke(ctx, q)
		switch code := status.Code(err); code {
		case codes.ResourceExhausted, codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
			return fmt.Errorf("a request of %d KiB ends with %s", size>>10, container.Explain(err))
		}
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
