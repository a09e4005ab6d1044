package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
)

// countedWays are the ways in which clients learn that their calls require approval. Each makes a call, or is
// rejected.
var countedWays = map[string]func(t *testing.T, r *countedReplicas, how given) error{ //nolint:gochecknoglobals // table
	"held":     func(t *testing.T, r *countedReplicas, how given) error { return r.held(t, how, nil, nil) },
	"progress": func(t *testing.T, r *countedReplicas, how given) error { return r.held(t, how, nil, "token") },
	"form on the stream": func(t *testing.T, r *countedReplicas, how given) error {
		return r.held(t, how, r.shown(t, how, &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}}),
			nil)
	},
	"form on the stream, with progress": func(t *testing.T, r *countedReplicas, how given) error {
		return r.held(t, how, r.shown(t, how, &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}}),
			1)
	},
	"form": func(t *testing.T, r *countedReplicas, how given) error {
		return r.repeated(t, how, &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}})
	},
	"URL": func(t *testing.T, r *countedReplicas, how given) error {
		return r.repeated(t, how, &sdk.ElicitationCapabilities{URL: &sdk.URLElicitationCapabilities{}})
	},
	"URL, before 2026-07-28": func(t *testing.T, r *countedReplicas, how given) error { return r.pages(t, how) },
	"task":                   func(t *testing.T, r *countedReplicas, how given) error { return r.task(t, how) },
	"JSON, of no MCP client": func(t *testing.T, r *countedReplicas, how given) error { return r.json(t, how) },
}

// shown returns a client that shows forms and pages. Its user answers forms as given, and pages on the page.
func (r *countedReplicas) shown(t *testing.T, how given, shows *sdk.ElicitationCapabilities) *sdk.ClientOptions {
	var shown atomic.Int64
	return &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{Elicitation: shows},
		ElicitationHandler: func(ctx context.Context, q *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			accept := &sdk.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}
			switch page := q.Params.URL; {
			case how == byNobody && page == "", how == byItsClient:
				<-ctx.Done()
				return nil, ctx.Err()
			case page != "" && how != inItsClient:
				if shown.Add(1) > 1 { // not answered by then
					return &sdk.ElicitResult{Action: "decline"}, nil
				}
				r.answer(t, page[strings.LastIndex(page, "/")+1:], how)
				return accept, nil
			case how == byApproval:
				return accept, nil
			}
			return &sdk.ElicitResult{Action: "decline"}, nil
		}}
}

// held makes a call that waits for its answer: in a form on its stream, otherwise from another person.
func (r *countedReplicas) held(t *testing.T, how given, o *sdk.ClientOptions, token any) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p, ended := echo("x"), make(chan error, 1)
	if token != nil {
		p.SetProgressToken(token)
	}
	s := r.session(t, "2025-11-25", o)
	go func() {
		got, err := s.CallTool(ctx, p)
		ended <- resultError(got, err)
	}()
	id := r.next(t, approvals.EventCreated).ID
	switch {
	case how == byItsClient:
		r.waiting(t)
		cancel()
	case o == nil:
		r.answer(t, id, how)
	}
	return check.Received(t, ended, "the end of the call")
}

// waiting waits until a call waits for approval.
func (r *countedReplicas) waiting(t *testing.T) {
	t.Helper()
	check.Until(t, "a call that waits", func() (bool, string) {
		n := r.Stats().Waiting
		return n > 0, fmt.Sprint(n)
	})
}

// repeated makes a call that its client repeats with the gateway's state.
func (r *countedReplicas) repeated(t *testing.T, how given, shows *sdk.ElicitationCapabilities) error {
	t.Helper()
	got, err := r.session(t, "2026-07-28", r.shown(t, how, shows)).CallTool(t.Context(), echo("x"))
	return resultError(got, err)
}

// pages makes a call whose client gets an error with the approval's page, and repeats it.
func (r *countedReplicas) pages(t *testing.T, how given) error {
	t.Helper()
	s := r.session(t, "2025-11-25",
		r.shown(t, how, &sdk.ElicitationCapabilities{URL: &sdk.URLElicitationCapabilities{}}))
	got, err := s.CallTool(t.Context(), echo("x"))
	if code, _ := refusalOf(t, err); code != sdk.CodeURLElicitationRequired {
		t.Errorf("got %+v %v", got, err)
	}
	r.answer(t, r.next(t, approvals.EventCreated).ID, how)
	got, err = s.CallTool(t.Context(), echo("x"))
	return resultError(got, err)
}

// task makes a call as a task, and polls the task once.
func (r *countedReplicas) task(t *testing.T, how given) error {
	t.Helper()
	a := r.rpc(t, "tools/call", "caps__echo", `"name":"caps__echo","arguments":{}`)
	id := a.Result.TaskID
	if how == byItsClient {
		r.rpc(t, "tasks/cancel", id, `"taskId":"`+id+`"`)
	}
	r.answer(t, id, how)
	switch a = r.rpc(t, "tasks/get", id, `"taskId":"`+id+`"`); {
	case a.Result.Status == "completed" && !a.Result.Result.IsError:
		return nil
	default:
		return fmt.Errorf("%s %+v", a.Result.Status, a.Error)
	}
}

// json makes a call over the JSON API, and repeats it with its approval.
func (r *countedReplicas) json(t *testing.T, how given) error {
	t.Helper()
	post := func(approval string) int {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			r.all[0].gateway.URL("/v1/capabilities/caps/tools/echo"), strings.NewReader("{}"))
		check.Must(t, err)
		q.Header.Set("Content-Type", "application/json")
		if approval != "" {
			q.Header.Set("X-Approval-Id", approval)
		}
		resp, err := r.RoundTrip(q)
		check.Must(t, err)
		check.Must(t, resp.Body.Close())
		return resp.StatusCode
	}
	if code := post(""); code != http.StatusAccepted {
		t.Errorf("status %d before the approval", code)
	}
	id := r.next(t, approvals.EventCreated).ID
	r.answer(t, id, how)
	if code := post(id); code != http.StatusOK {
		return fmt.Errorf("status %d", code)
	}
	return nil
}

// resultError returns the error of a call, or of its result.
func resultError(r *sdk.CallToolResult, err error) error {
	if err == nil && r.IsError {
		err = fmt.Errorf("%v", r.Content)
	}
	return err
}
