package grpcservice_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/grpcservice"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/grpctest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
)

// silence is the time for which a connection may receive no data once probes fail. A busy machine receives some.
const silence = 2 * time.Second

const (
	id   = "remote" // of the only fleet
	demo = "demo.v1.Demo/*"
)

// serviceGateway is a gateway with one fleet of gRPC services.
type serviceGateway struct {
	docpb.CapabilityClient
	gateway  *gatewaytest.Gateway
	services upstream.Backends
	fleet    upstream.Fleet
	changes  chan string
	log      *buffer // of the services
}

// buffer is a log.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns all that was written.
func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// start runs a gateway. edit may change the fleet.
func start(t *testing.T, edit func(*upstream.Fleet, *gatewaytest.Fleet), addrs ...string) *serviceGateway {
	t.Helper()
	return startWith(t, gatewaytest.Options{}, edit, addrs...)
}

// startWith is start with further options.
func startWith(t *testing.T, o gatewaytest.Options, edit func(*upstream.Fleet, *gatewaytest.Fleet),
	addrs ...string) *serviceGateway {
	t.Helper()
	w := &serviceGateway{changes: make(chan string, 100), log: &buffer{}}
	w.services = grpcservice.Open(upstream.Options{Silence: silence, Log: slog.New(slog.NewTextHandler(w.log, nil)),
		Changed: func(c string) {
			select {
			case w.changes <- c:
			default:
			}
		}})
	w.fleet = upstream.Fleet{Capability: id, Backends: addrs,
		Protocol: &grpcservice.Settings{Methods: []string{demo}}}
	of := gatewaytest.Fleet{Capability: id, Backends: addrs, Dialect: call.Doc,
		Protocol:  &grpcservice.Settings{Methods: []string{demo}},
		Asks:      w.services.Probe(id),
		Deadlines: router.Deadlines{Default: patience, Max: patience}}
	if edit != nil {
		edit(&w.fleet, &of)
	}
	w.services.Set([]upstream.Fleet{w.fleet})
	o.Fleets, o.Closed = []gatewaytest.Fleet{of}, w.services.Close
	o.Local = upstream.Protocols{grpcservice.Name: w.services}.Serve
	w.gateway = gatewaytest.Start(t, o)
	w.CapabilityClient = docpb.NewCapabilityClient(connect(t, w.gateway.Addr))
	return w
}

// connect returns a connection.
func connect(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := clienttest.NewConn("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.Must(t, err)
	check.Cleanup(t, func() { _ = conn.Close() })
	return conn
}

func settings(f *upstream.Fleet) *grpcservice.Settings { return f.Protocol.(*grpcservice.Settings) }

func request(tool, args string) *docpb.InvokeRequest {
	return &docpb.InvokeRequest{CapabilityId: id, ToolName: tool, ArgsJson: []byte(args)}
}

// patience bounds each call: the largest lists and schemas take seconds of a processor, which may be busy.
const patience = 5 * check.Patience

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	check.Cleanup(t, cancel)
	return ctx
}

// result calls a tool.
func (w *serviceGateway) result(t *testing.T, tool, args string) string {
	t.Helper()
	got, err := w.Invoke(within(t), request(tool, args))
	if err != nil || got.GetError() != "" {
		t.Fatalf("%s %s: %q, %v", tool, args, got.GetError(), err)
	}
	return string(got.GetResultJson())
}

// collect reads the chunks of a stream.
func (w *serviceGateway) collect(t *testing.T, tool, args string) (all []string, err error) {
	t.Helper()
	stream, err := w.StreamInvoke(within(t), request(tool, args))
	check.Must(t, err)
	for done := false; ; {
		c, err := stream.Recv()
		if errors.Is(err, io.EOF) && done {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		if text := string(bytes.TrimSpace(c.GetData())); text != "" {
			all = append(all, text)
		}
		done = c.GetDone()
	}
}

// post calls a tool over JSON.
func (w *serviceGateway) post(t *testing.T, tool, args string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), http.MethodPost,
		w.gateway.URL("/v1/capabilities/"+id+"/tools/"+tool), strings.NewReader(args))
	check.Must(t, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := clienttest.HTTP.Do(req)
	check.Must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return resp.StatusCode, string(text)
}

// listed asks for the tools, by name.
func (w *serviceGateway) listed(t *testing.T) map[string]upstream.Discovered {
	t.Helper()
	var all []upstream.Discovered
	check.Must(t, json.Unmarshal([]byte(w.result(t, upstream.DiscoveryTool, "")), &all))
	found := map[string]upstream.Discovered{}
	for _, one := range all {
		found[one.Name] = one
	}
	return found
}

// definitions holds the descriptors of the descriptor file.
func definitions(t *testing.T) *grpcservice.Definitions {
	t.Helper()
	d, err := grpcservice.Parse(grpctest.Descriptors, []string{demo}, grpcservice.ByMethod)
	check.Must(t, err)
	return d
}
