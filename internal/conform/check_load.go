package conform

import (
	"bytes"
	"context"
	"errors"
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
	atOnce      = 32                     // calls at one time
	givenUp     = 64                     // calls that are begun and given up
	givenUpSlow = 16                     // slow ones
	shortTime   = 300 * time.Millisecond // the deadline of a call that does not end by itself
)

// checkLarge calls a tool that is not there: whatever it answers, the request has come.
func checkLarge(ctx context.Context, r *run) error {
	for _, size := range []int{r.Largest / 16, r.Largest / 3, r.Largest} {
		q := container.Question{Tool: container.NoSuchTool, Session: session}
		// What the message has beside the padding, with the longer length of its field.
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

// unfinished is the method and the beginning of a call that cannot end by itself: an upload of which no end comes, or
// a request of which nothing comes.
func (r *run) unfinished() (method string, begin []proto.Message) {
	if r.files.uploaded.ID == "" {
		return "Invoke", nil
	}
	return "UploadInputArtifact", []proto.Message{r.client.Chunk(bytes.Repeat([]byte("a"), 1000), fileName, fileType)}
}

// slow is the slow call, if there is one, else an unfinished one.
func (r *run) slow() (method string, messages []proto.Message, whole bool) {
	if r.Slow.Tool == "" {
		method, messages = r.unfinished()
		return method, messages, false
	}
	return "Invoke", []proto.Message{r.client.Request(container.Question{Tool: r.Slow.Tool, Args: r.Slow.Args, Session: session})}, true
}

func checkDeadline(ctx context.Context, r *run) error {
	method, messages, whole := r.slow()
	ctx, cancel := context.WithTimeout(ctx, shortTime+r.Grace)
	defer cancel()
	err := outlive(ctx, r.Target, r.client.Path(method), messages, whole, shortTime)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s with a deadline of %v goes on after %v", method, shortTime, shortTime+r.Grace)
	}
	return err
}

// checkCancel begins calls, gives them up, and wants others to be answered.
func checkCancel(ctx context.Context, r *run) error {
	if err := r.giveUp(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.Grace)
	defer cancel()
	if _, _, err := r.client.Healthcheck(ctx); err != nil && status.Code(err) != codes.Unimplemented {
		return r.heldUp("the health call", err)
	}
	if _, err := r.client.Invoke(ctx, container.Question{Tool: container.NoSuchTool, Args: []byte("{}"), Session: session}); status.Code(err) == codes.DeadlineExceeded {
		return r.heldUp("a call", err)
	}
	if r.files.uploaded.ID == "" {
		return nil
	}
	if _, err := r.client.Upload(ctx, file([]byte("after those that were given up"))); status.Code(err) == codes.DeadlineExceeded {
		return r.heldUp("an upload", err)
	}
	return nil
}

func (r *run) heldUp(what string, err error) error {
	return fmt.Errorf("after calls were given up, %s ends within %v with %s", what, r.Grace, container.Explain(err))
}

// giveUp begins calls and cancels them.
func (r *run) giveUp(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	method, messages, whole := r.slow()
	n := givenUp
	if whole {
		n = givenUpSlow
	}
	for range n {
		stream, err := r.client.Begin(ctx, method)
		if err != nil {
			return errors.New("a call cannot begin: " + container.Explain(err))
		}
		for _, m := range messages {
			_ = stream.SendMsg(m) // one that has ended already is given up, too
		}
		if whole {
			_ = stream.CloseSend()
		}
	}
	if whole {
		// Nothing tells that they run; so they get a moment.
		select {
		case <-ctx.Done():
		case <-time.After(shortTime):
		}
	}
	return nil
}
