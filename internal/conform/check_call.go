package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/container"
)

// session is the session of the kit's calls.
const session = "capgate-conform"

func checkHealth(ctx context.Context, r *run) error {
	ctx, cancel := context.WithTimeout(ctx, r.Wait)
	defer cancel()
	ready, message, err := r.client.WaitReady(ctx)
	switch {
	case status.Code(err) == codes.Unimplemented && r.client.Dialect == call.Legacy:
		return skip("it has none, which the older protocol leaves open")
	case err != nil:
		return errors.New(container.Explain(err))
	case !ready && message == "":
		return fmt.Errorf("it is not ready after %v, without a message", r.Wait)
	case !ready:
		return fmt.Errorf("it is not ready after %v: %s", r.Wait, message)
	}
	return nil
}

func checkDiscovery(ctx context.Context, r *run) error {
	r.tools, r.toolsErr = r.client.Offers(ctx, r.Manifest)
	switch r.harmless = r.Harmless; {
	case r.harmless.Tool != "":
	case !r.Compose:
		r.unknown = errNoTool
	case r.toolsErr != nil:
		r.unknown = errNoCall
	default:
		r.harmless, r.unknown = sample(r.tools.All)
	}
	switch {
	case errors.Is(r.toolsErr, container.ErrNoDiscovery):
		return skip("it has no tool " + container.DefaultDiscovery)
	case r.toolsErr == nil && r.tools.From == "manifest":
		return skip("its tools are those of the manifest")
	case r.Manifest == nil && r.toolsErr != nil && r.noTool(ctx) != nil:
		return skip("it has no tool " + container.DefaultDiscovery) // the rule unknown-tool checks its error
	}
	return r.toolsErr
}

// noTool returns the gRPC error of a call of an unknown tool.
func (r *run) noTool(ctx context.Context) error {
	_, err := r.client.Invoke(ctx, container.Question{Tool: container.NoSuchTool, Args: []byte("{}"), Session: session})
	return err
}

func checkUnknownTool(ctx context.Context, r *run) error {
	answer, err := r.client.Invoke(ctx,
		container.Question{Tool: container.NoSuchTool, Args: []byte("{}"), Session: session})
	switch {
	case err != nil:
		return errors.New("the call ends with " + container.Explain(err))
	case !answer.Failed:
		return fmt.Errorf("a call of the tool %s reads as a success", container.NoSuchTool)
	case answer.Error == "":
		return errors.New("success is false and error is empty, so callers get no reason")
	}
	return nil
}

func (r *run) question() container.Question {
	return container.Question{Tool: r.harmless.Tool, Args: r.harmless.Args, Session: session}
}

// call makes the harmless call and returns its result.
func (r *run) call(ctx context.Context, q container.Question) ([]byte, error) {
	answer, err := r.client.Invoke(ctx, q)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s ends with %s", q.Tool, container.Explain(err))
	case answer.Failed:
		return nil, fmt.Errorf("%s says: %s", q.Tool, container.Clean(answer.Error))
	}
	return answer.Result, nil
}

// again makes the harmless call in another form and compares the result.
func (r *run) again(ctx context.Context, q container.Question) error {
	if !r.good {
		return r.noGoodCall()
	}
	result, err := r.call(ctx, q)
	if err == nil && r.steady && !sameJSON(result, r.result) {
		err = fmt.Errorf("%s has a different result: %s", q.Tool, container.Clean(string(result)))
	}
	return err
}

func (r *run) noGoodCall() error {
	if r.unknown != nil {
		return skip(r.unknown.Error())
	}
	return skipf("the call of %s does not work: see invoke", r.harmless.Tool)
}

func checkInvoke(ctx context.Context, r *run) error {
	if r.unknown != nil {
		return r.noGoodCall()
	}
	result, err := r.call(ctx, r.question())
	if err != nil {
		return err
	}
	if !json.Valid(result) {
		return fmt.Errorf("the result of %s is not JSON: %s", r.harmless.Tool, container.Clean(string(result)))
	}
	r.good, r.result = true, result
	second, err := r.call(ctx, r.question())
	r.steady = err == nil && sameJSON(second, result)
	return err
}

func checkToolError(ctx context.Context, r *run) error {
	if !r.good {
		return r.noGoodCall()
	}
	if r.BadArgs == nil {
		return skip("no arguments are known with which " + r.harmless.Tool + " fails: --bad-args JSON gives some")
	}
	q := r.question()
	q.Args = r.BadArgs
	answer, err := r.client.Invoke(ctx, q)
	switch {
	case err != nil:
		return fmt.Errorf("%s with the arguments %s ends with %s", q.Tool, container.Clean(string(q.Args)),
			container.Explain(err))
	case !answer.Failed && answer.Error != "":
		return errors.New("success is true and error is not empty")
	case !answer.Failed:
		return skipf("%s accepts even the arguments %s; name some that fail with --bad-args", q.Tool,
			container.Clean(string(q.Args)))
	case answer.Error == "":
		return errors.New("success is false and error is empty, so callers get no reason")
	}
	return nil
}

func checkMetadata(ctx context.Context, r *run) error {
	return r.again(metadata.AppendToOutgoingContext(ctx,
		"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"x-request-id", "capgate-conform", "x-capgate-conform-bin", "\x00\xff"), r.question())
}

func checkUnknownFields(ctx context.Context, r *run) error {
	q := r.question()
	q.Unknown = protowire.AppendTag(q.Unknown, 1999, protowire.BytesType)
	q.Unknown = protowire.AppendString(q.Unknown, "of a later version")
	q.Unknown = protowire.AppendTag(q.Unknown, 2000, protowire.VarintType)
	q.Unknown = protowire.AppendVarint(q.Unknown, 1)
	return r.again(ctx, q)
}

func checkContext(ctx context.Context, r *run) error {
	q := r.question()
	q.Session = ""
	return r.again(ctx, q)
}

// sameJSON compares two JSON texts, with numbers as texts.
func sameJSON(a, b []byte) bool {
	x, err := values(a)
	if err != nil {
		return false
	}
	y, err := values(b)
	return err == nil && reflect.DeepEqual(x, y)
}

// values parses the sequence of JSON values in a text.
func values(text []byte) ([]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	all := []any{}
	for d.More() {
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}
