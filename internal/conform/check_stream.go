package conform

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/container"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// streamed is the harmless call as a stream.
type streamed struct {
	chunks []*docpb.InvokeChunk
	good   bool // ended with OK and without an error
}

// chunk is a message of a stream with an end mark.
type chunk interface {
	GetDone() bool
	GetData() []byte
}

func checkStream(ctx context.Context, r *run) error {
	if !r.good {
		return r.noGoodCall()
	}
	chunks, err := r.client.Stream(ctx, r.question())
	if status.Code(err) == codes.Unimplemented && len(chunks) == 0 {
		return skip("it has no StreamInvoke: callers that stream get UNIMPLEMENTED")
	}
	if err != nil {
		return fmt.Errorf("%s ends with %s", r.harmless.Tool, container.Explain(err))
	}
	for _, c := range chunks {
		if c.GetError() != "" {
			return fmt.Errorf("%s says: %s", r.harmless.Tool, container.Clean(c.GetError()))
		}
	}
	r.stream = streamed{chunks, true}
	return nil
}

func (r *run) noGoodStream() error {
	return skip("no good stream is known: see stream")
}

func checkStreamDone(_ context.Context, r *run) error {
	if !r.stream.good {
		return r.noGoodStream()
	}
	return checkDone(r.stream.chunks)
}

func checkStreamEnd(_ context.Context, r *run) error {
	if !r.stream.good {
		return r.noGoodStream()
	}
	return checkEnd(r.stream.chunks)
}

// checkDone expects a chunk with done.
func checkDone[C chunk](chunks []C) error {
	if slices.ContainsFunc(chunks, func(c C) bool { return c.GetDone() }) {
		return nil
	}
	return fmt.Errorf("none of %d chunks has done set: callers treat the result as truncated", len(chunks))
}

// checkEnd expects no chunk after it.
func checkEnd[C chunk](chunks []C) error {
	first := slices.IndexFunc(chunks, func(c C) bool { return c.GetDone() })
	if after := len(chunks) - 1 - first; first >= 0 && after > 0 {
		return fmt.Errorf("chunk %d of %d has done set, and more followed it", first+1, len(chunks))
	}
	return nil
}

func checkStreamResult(_ context.Context, r *run) error {
	if !r.stream.good {
		return r.noGoodStream()
	}
	var text []byte
	for _, c := range r.stream.chunks {
		text = append(text, c.GetData()...)
		if c.GetDone() {
			break
		}
	}
	parts, err := values(text)
	if err != nil || len(parts) == 0 {
		return fmt.Errorf("the chunks of %s together are not JSON: %s", r.harmless.Tool, container.Clean(string(text)))
	}
	if !r.steady {
		return nil // results that differ each time cannot be compared
	}
	whole, err := values(r.result)
	if err != nil {
		return err
	}
	if reflect.DeepEqual(parts, whole) || len(whole) == 1 && reflect.DeepEqual(whole[0], any(parts)) {
		return nil
	}
	return fmt.Errorf("the chunks of %s together are %s, which differs from the result of Invoke", r.harmless.Tool,
		container.Clean(string(text)))
}

func checkStreamError(ctx context.Context, r *run) error {
	chunks, err := r.client.Stream(ctx,
		container.Question{Tool: container.NoSuchTool, Args: []byte("{}"), Session: session})
	failed := slices.IndexFunc(chunks, func(c *docpb.InvokeChunk) bool { return c.GetError() != "" })
	switch {
	case status.Code(err) == codes.Unimplemented && len(chunks) == 0:
		return skip("it has no StreamInvoke")
	case err != nil:
		return errors.New("a tool that does not exist ends with " + container.Explain(err))
	case failed < 0:
		return fmt.Errorf("a stream of the tool %s ends without an error", container.NoSuchTool)
	case failed != len(chunks)-1:
		return errors.New("chunks followed the one with the error")
	}
	return nil
}
