package conform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/container"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// A handler has to notice the early end of a call: gRPC's server does not stop it. For tools, only a slow call shows
// whether it does. An upload waits for its caller, and an unread download for its reader.

// noSlow returns a skip if no slow call is known.
func (r *run) noSlow() error {
	if r.Slow.Tool == "" {
		return skip("no call is known that takes seconds: --slow-tool NAME --slow-args JSON gives one")
	}
	return nil
}

func (r *run) slow() proto.Message {
	return r.client.Request(container.Question{Tool: r.Slow.Tool, Args: r.Slow.Args, Session: session})
}

// begun returns the first chunk of an upload that does not end.
func (r *run) begun() proto.Message {
	return r.client.Chunk(bytes.Repeat([]byte("a"), 1000), fileName, fileType)
}

func checkDeadline(ctx context.Context, r *run) error {
	if err := r.noSlow(); err != nil {
		return err
	}
	return r.inTime(ctx, "Invoke", r.slow(), true)
}

func checkDeadlineFiles(ctx context.Context, r *run) error {
	if err := r.noUpload(); err != nil {
		return err
	}
	return r.inTime(ctx, "UploadInputArtifact", r.begun(), false)
}

// inTime makes a call that cannot end before its deadline, and expects it to end then.
func (r *run) inTime(ctx context.Context, method string, message proto.Message, whole bool) error {
	ctx, cancel := context.WithTimeout(ctx, shortTime+r.Grace)
	defer cancel()
	err := outlive(ctx, r.Target, r.client.Path(method), message, whole, shortTime)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s with a deadline of %v still runs after %v", method, shortTime, shortTime+r.Grace)
	}
	return err
}

// checkCancelFiles cancels unfinished uploads and downloads, and expects responses to other calls.
func checkCancelFiles(ctx context.Context, r *run) error {
	if err := r.noUpload(); err != nil {
		return err
	}
	if err := r.giveUpUploads(ctx); err != nil {
		return err
	}
	if r.files.err == nil {
		if err := r.giveUpDownloads(ctx); err != nil {
			return err
		}
	}
	if err := r.answers(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.Grace)
	defer cancel()
	if _, err := r.client.Upload(ctx,
		file([]byte("after those that were given up"))); status.Code(err) == codes.DeadlineExceeded {
		return r.heldUp("an upload", err)
	}
	return nil
}

func checkCancel(ctx context.Context, r *run) error {
	if err := r.noSlow(); err != nil {
		return err
	}
	if err := r.giveUpSlow(ctx); err != nil {
		return err
	}
	return r.answers(ctx)
}

// answers expects prompt responses to calls.
func (r *run) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.Grace)
	defer cancel()
	if _, _, err := r.client.Healthcheck(ctx); err != nil && status.Code(err) != codes.Unimplemented {
		return r.heldUp("the health call", err)
	}
	if _, err := r.client.Invoke(ctx,
		container.Question{Tool: container.NoSuchTool, Args: []byte("{}"),
			Session: session}); status.Code(err) == codes.DeadlineExceeded {
		return r.heldUp("a call", err)
	}
	return nil
}

func (r *run) heldUp(what string, err error) error {
	return fmt.Errorf("after canceled calls, %s ends within %v with %s", what, r.Grace, container.Explain(err))
}

func (r *run) giveUpUploads(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range givenUp {
		stream, err := r.client.Begin(ctx, "UploadInputArtifact")
		if err != nil {
			return cannotBegin(err)
		}
		_ = stream.SendMsg(r.begun()) // one that has ended is canceled, too
	}
	return nil
}

// giveUpDownloads starts downloads that it does not read. The chunks after the first one exceed the
// flow-control window, so the downloads wait.
func (r *run) giveUpDownloads(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.Grace)
	defer cancel()
	var first grpc.ClientStream
	for range givenUp {
		stream, err := r.client.Begin(ctx, "DownloadOutputArtifact")
		if err != nil {
			return cannotBegin(err)
		}
		_ = stream.SendMsg(&docpb.DownloadOutputArtifactRequest{ArtifactId: r.files.uploaded.ID})
		_ = stream.CloseSend()
		if first == nil {
			first = stream
		}
	}
	if err := first.RecvMsg(new(docpb.ArtifactChunk)); err != nil {
		return r.heldUp("a download", err)
	}
	return nil
}

func cannotBegin(err error) error {
	return errors.New("a call cannot start: " + container.Explain(err))
}

// giveUpSlow starts slow calls and cancels them.
func (r *run) giveUpSlow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range givenUpSlow {
		stream, err := r.client.Begin(ctx, "Invoke")
		if err != nil {
			return cannotBegin(err)
		}
		_ = stream.SendMsg(r.slow())
		_ = stream.CloseSend()
	}
	// No event shows that they are running, so the check waits a moment.
	select {
	case <-ctx.Done():
	case <-time.After(shortTime):
	}
	return nil
}
