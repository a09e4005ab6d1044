package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// perConnection is the number of calls after which a caller reconnects, so that haproxy selects another replica. pace
// is the time between two calls of a caller.
const (
	perConnection = 20
	pace          = 20 * time.Millisecond
)

// load calls the fleet over all protocols at once.
type load struct {
	kinds  map[string]*kind
	cancel context.CancelFunc
	all    sync.WaitGroup
}

// kind is one protocol of calls. connect returns a function that makes a call on a new connection, and one that closes
// the connection. The call must end in time although its replica is replaced.
type kind struct {
	callers int
	connect func(u *upgrade) (call func(ctx context.Context, args string) error, closing func())
	calls   atomic.Int64
}

// startLoad makes calls until end.
func (u *upgrade) startLoad(t *testing.T) *load {
	t.Helper()
	l := &load{kinds: map[string]*kind{
		"gRPC":      {callers: 3, connect: (*upgrade).overGRPC},
		"streams":   {callers: 2, connect: (*upgrade).streams},
		"long":      {callers: 4, connect: (*upgrade).longStreams},
		"JSON":      {callers: 2, connect: (*upgrade).overJSON},
		"MCP":       {callers: 2, connect: (*upgrade).overMCP},
		"approvals": {callers: 2, connect: (*upgrade).approvals},
	}}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	t.Cleanup(func() { l.end(t) })
	for name, k := range l.kinds {
		for caller := range k.callers {
			l.all.Go(func() { k.run(ctx, t, u, fmt.Sprintf("%s %d", name, caller)) })
		}
	}
	return l
}

// run makes the calls of one caller until ctx ends. The last call ends by itself.
func (k *kind) run(ctx context.Context, t *testing.T, u *upgrade, caller string) {
	closing := func() {}
	defer func() { closing() }()
	var call func(context.Context, string) error
	for n := 0; ctx.Err() == nil && !t.Failed(); n++ {
		if n%perConnection == 0 {
			closing()
			call, closing = k.connect(u)
		}
		within, cancel := context.WithTimeout(context.Background(), check.Patience)
		err := call(within, fmt.Sprintf(`{"call":"%s %d"}`, caller, n))
		cancel()
		if err != nil {
			t.Errorf("call %d of %s: %v", n, caller, err)
		}
		k.calls.Add(1)
		select {
		case <-time.After(pace):
		case <-ctx.Done():
		}
	}
}

// during makes calls of each kind before, during and after an operation.
func (l *load) during(t *testing.T, what string, happens func()) {
	t.Helper()
	began := l.counts()
	l.more(t)
	happens()
	l.more(t)
	if t.Failed() {
		t.FailNow()
	}
	for _, name := range slices.Sorted(maps.Keys(l.kinds)) {
		t.Logf("%s: %d calls of %s", what, l.kinds[name].calls.Load()-began[name], name)
	}
}

func (l *load) counts() map[string]int64 {
	counts := map[string]int64{}
	for name, k := range l.kinds {
		counts[name] = k.calls.Load()
	}
	return counts
}

// more waits for further calls of each kind.
func (l *load) more(t *testing.T) {
	t.Helper()
	began := l.counts()
	check.Until(t, "further calls of each kind", func() (bool, string) {
		now := l.counts()
		for name, n := range now {
			if n < began[name]+int64(l.kinds[name].callers) && !t.Failed() {
				return false, fmt.Sprint(began, now)
			}
		}
		return true, ""
	})
}

// end waits for the running calls.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.cancel()
	check.Ended(t, &l.all, "the calls to end")
}

// as adds a key to the metadata of calls.
func as(ctx context.Context, key string, more ...string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, append(more, "authorization", "Bearer "+key)...)
}

// same returns an error if a result differs from the arguments.
func same(result, args string, err error) error {
	if err == nil && result != args {
		err = fmt.Errorf("the result is %q", result)
	}
	return err
}

// connectGRPC returns a client of haproxy. Its calls are never repeated.
func (u *upgrade) connectGRPC() (docpb.CapabilityClient, func()) {
	conn, err := clienttest.NewConn("passthrough:///"+u.host(9)+publicPort,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	check.Must(u.t, err)
	return docpb.NewCapabilityClient(conn), func() { _ = conn.Close() }
}

func (u *upgrade) overGRPC() (func(context.Context, string) error, func()) {
	client, closing := u.connectGRPC()
	return func(ctx context.Context, args string) error {
		resp, err := client.Invoke(as(ctx, u.key), echo(args))
		return same(string(resp.GetResultJson()), args, err)
	}, closing
}

func (u *upgrade) streams() (func(context.Context, string) error, func()) {
	return u.streamsOf(gatewaytest.Echo)
}

func (u *upgrade) longStreams() (func(context.Context, string) error, func()) {
	return u.streamsOf(long)
}

func (u *upgrade) streamsOf(tool string) (func(context.Context, string) error, func()) {
	client, closing := u.connectGRPC()
	return func(ctx context.Context, args string) error {
		stream, err := client.StreamInvoke(as(ctx, u.key), &docpb.InvokeRequest{CapabilityId: "caps", ToolName: tool,
			ArgsJson: []byte(args)})
		if err != nil {
			return err
		}
		var text strings.Builder
		for {
			chunk, err := stream.Recv()
			if err != nil {
				if errors.Is(err, io.EOF) {
					err = nil
				}
				return same(text.String(), args, err)
			}
			text.Write(chunk.GetData())
		}
	}, closing
}

func (u *upgrade) overJSON() (func(context.Context, string) error, func()) {
	client := &http.Client{Transport: new(http.Transport)}
	return func(ctx context.Context, args string) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+u.host(9)+publicPort+
			"/v1/capabilities/caps/tools/echo", strings.NewReader(args))
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+u.key)
		request.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(request)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = errors.New(resp.Status)
		}
		return same(string(bytes.TrimSpace(text)), args, err)
	}, client.CloseIdleConnections
}

// bearer adds a key to requests.
type bearer struct {
	http.RoundTripper
	key string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.key)
	return b.RoundTripper.RoundTrip(r)
}

func (u *upgrade) overMCP() (func(context.Context, string) error, func()) {
	transport := new(http.Transport)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(context.Background(),
		&sdk.StreamableClientTransport{Endpoint: "http://" + u.host(9) + publicPort + "/mcp",
			HTTPClient: &http.Client{Transport: bearer{transport, u.key}}}, nil)
	if err != nil {
		return func(context.Context, string) error { return fmt.Errorf("connect: %w", err) }, func() {}
	}
	return func(ctx context.Context, args string) error {
			r, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "caps__echo", Arguments: json.RawMessage(args)})
			if err != nil {
				return err
			}
			text, err := json.Marshal(r.StructuredContent)
			return same(string(text), args, err)
		}, func() {
			_ = session.Close()
			transport.CloseIdleConnections()
		}
}

// approvals makes calls that need approval: it requests an approval, answers it at any replica, and repeats the call.
func (u *upgrade) approvals() (func(context.Context, string) error, func()) {
	client, closing := u.connectGRPC()
	return func(ctx context.Context, args string) error {
		id, err := u.ask(ctx, client, args)
		if err != nil {
			return err
		}
		if err = u.approve(ctx, u.admin(), id); err != nil {
			return err
		}
		return u.redeem(ctx, client, args, id)
	}, closing
}

// ask makes a call that needs approval, and returns the approval.
func (u *upgrade) ask(ctx context.Context, client docpb.CapabilityClient, args string) (id string, err error) {
	_, err = client.Invoke(as(ctx, u.key), &docpb.InvokeRequest{CapabilityId: "people", ToolName: gatewaytest.Echo,
		ArgsJson: []byte(args)})
	if id = clienttest.Metadata(err, "approval"); status.Code(err) != codes.FailedPrecondition || id == "" {
		return "", fmt.Errorf("a call that needs approval: %w", err)
	}
	return id, nil
}

// approve approves a call at one replica.
func (u *upgrade) approve(ctx context.Context, admin, id string) error {
	conn, err := at(admin)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = capgatepb.NewApprovalsClient(conn).Approve(ctx, &capgatepb.ApproveRequest{ApprovalId: id})
	if err != nil {
		err = fmt.Errorf("approve at %s: %w", admin, err)
	}
	return err
}

// redeem repeats a call that was approved.
func (u *upgrade) redeem(ctx context.Context, client docpb.CapabilityClient, args, id string) error {
	resp, err := client.Invoke(as(ctx, u.key, "x-approval-id", id), &docpb.InvokeRequest{CapabilityId: "people",
		ToolName: gatewaytest.Echo, ArgsJson: []byte(args)})
	return same(string(resp.GetResultJson()), args, err)
}
