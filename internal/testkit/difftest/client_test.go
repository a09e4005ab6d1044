package difftest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"

	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// deployment is a gateway and its backends.
type deployment struct {
	*journal
	gateway  *gateway
	backends []*backend
	last     atomic.Int64 // id of a case
	ended    []ended      // the last batches, oldest first
}

func newDeployment(t testing.TB) *deployment {
	t.Helper()
	w := &deployment{journal: newJournal()}
	w.backends = startBackends(t, w.journal)
	w.gateway = startGateway(t, w.backends)
	w.upload(t)
	return w
}

// upload uploads one artifact of each tenant to every fleet with files.
func (w *deployment) upload(t testing.TB) {
	t.Helper()
	c := &client{w: w}
	defer c.close()
	for _, b := range w.backends {
		for _, d := range []string{live, doc} {
			for who, key := range map[string]string{"ours": w.gateway.ours, "theirs": w.gateway.theirs} {
				a := &attempt{fleet: b.name + "-" + d, path: uploadPaths[d], header: plainHeader(), named: true,
					parts: [][]byte{text(1, who), text(2, who), text(3, who)}}
				if d == doc {
					a.parts[0] = text(1, "content")
				} else {
					a.parts[2] = text(3, "content")
				}
				id, status := c.send(a, key)
				if status != "0" {
					t.Fatalf("upload to %s: %s", a.fleet, status)
				}
				w.wait(t, id)
				w.take(id)
			}
		}
	}
}

// client is a connection to the gateway. It is replaced when it is lost.
type client struct {
	w      *deployment
	conn   *rawhttp2.Conn
	stream uint32
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// mostStreams is the number of calls per connection, whose window is never replenished.
const mostStreams = 2000

func (c *client) connect() error {
	if c.conn != nil && c.stream < mostStreams {
		return nil
	}
	c.close()
	conn, err := rawhttp2.Dial(c.w.gateway.addr)
	if err != nil {
		return err
	}
	conn.Timeout = check.Patience
	c.conn, c.stream = conn, 1
	if err := conn.Greet(rawhttp2.Setting{ID: rawhttp2.InitialWindowSize, Value: 1 << 20}); err != nil {
		return err
	}
	return conn.Write(rawhttp2.WindowUpdate(0, 1<<30))
}

// send makes a call, and returns its id and its gRPC status.
func (c *client) send(a *attempt, key string) (id, status string) {
	id = fmt.Sprint("case-", c.w.last.Add(1))
	if err := c.connect(); err != nil {
		return id, err.Error()
	}
	stream := c.stream
	c.stream += 2
	body := a.body()
	frames := []rawhttp2.Frame{rawhttp2.Headers(stream, false, c.conn.Block(a.fields("capgate.test", key, id)...))}
	for len(body) > maxFrame {
		frames = append(frames, rawhttp2.Data(stream, false, body[:maxFrame]))
		body = body[maxFrame:]
	}
	frames = append(frames, rawhttp2.Data(stream, true, body))
	if err := c.conn.Write(frames...); err != nil {
		c.close()
		return id, err.Error()
	}
	response, err := c.conn.WaitResponse(stream)
	if err != nil {
		c.close() // the connection ended
		return id, err.Error()
	}
	if response.Reset {
		return id, fmt.Sprint("reset ", response.Code)
	}
	if status := response.Header[":status"]; a.json && status != "200" {
		return id, "HTTP " + status
	} else if a.json {
		return id, "0"
	}
	return id, response.Status()
}

const maxFrame = 16384

// attempts makes many concurrent calls and returns their outcomes.
func (w *deployment) attempts(t testing.TB, all []*attempt) []outcome {
	t.Helper()
	const clients = 4
	outcomes, ids := make([]outcome, len(all)), make([]string, len(all))
	var group sync.WaitGroup
	var next atomic.Int64
	for range clients {
		group.Go(func() {
			c := &client{w: w}
			defer c.close()
			for i := int(next.Add(1)) - 1; i < len(all); i = int(next.Add(1)) - 1 {
				ids[i], outcomes[i].status = c.send(all[i], w.gateway.ours)
			}
		})
	}
	group.Wait()
	w.settle(t)
	batch := ended{}
	for i := range all {
		o := &outcomes[i]
		o.runs = w.take(ids[i])
		wait := time.Duration(0)
		if len(o.runs) > 0 || o.status == "0" {
			wait = check.Patience
		}
		o.record = w.gateway.record(ids[i], wait)
		batch[ids[i]] = &judged{attempt: all[i], outcome: *o}
	}
	w.ended = append(w.ended, batch)
	return outcomes
}

// ended is a batch of verified attempts.
type ended map[string]*judged

type judged struct {
	attempt *attempt
	outcome outcome
}

// late verifies calls again that ran after their end. This is allowed, because the caller may have been rejected
// meanwhile.
func (w *deployment) late(t *testing.T) {
	t.Helper()
	for _, id := range w.left() {
		found := false
		for _, batch := range w.ended {
			if j := batch[id]; j != nil {
				found = true
				j.outcome.runs = append(j.outcome.runs, w.take(id)...)
				if j.outcome.record == nil {
					j.outcome.record = w.gateway.record(id, check.Patience)
				}
				if err := verify(j.attempt, &j.outcome); err != nil {
					t.Errorf("late: %v\n%v", err, j.attempt)
				}
			}
		}
		if !found {
			t.Errorf("no attempt matches the call that ran as %q: %v", id, w.take(id))
		}
	}
	const most = 5
	for len(w.ended) > most {
		for id := range w.ended[0] {
			w.gateway.record(id, 0)
		}
		w.ended = w.ended[1:]
	}
}

// settle waits until every backend has reported all earlier calls.
func (w *deployment) settle(t testing.TB) {
	t.Helper()
	for _, b := range w.backends {
		for i := range b.ports {
			id := fmt.Sprint("settled-", w.last.Add(1))
			b.ask(t, i, id)
			w.wait(t, id)
			w.take(id)
		}
	}
}

// ask calls a backend directly.
func (b *backend) ask(t testing.TB, port int, id string) {
	t.Helper()
	if b.conns[port] == nil {
		conn, err := clienttest.NewConn("passthrough:///"+b.addr(port),
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		check.Must(t, err)
		b.conns[port] = conn
		check.Cleanup(t, func() { _ = conn.Close() })
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-request-id", id)
	if _, err := livepb.NewCapabilityClient(b.conns[port]).Invoke(ctx,
		&livepb.InvokeRequest{ToolName: "free"}); err != nil {
		t.Fatalf("%s, called past the gateway: %v", b.name, err)
	}
}
