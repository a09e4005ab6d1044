package gateway_test

import (
	"encoding/base64"
	"slices"
	"strconv"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// rawPeer is a client that sends what no gRPC library sends.
type rawPeer struct {
	t    testing.TB
	conn *rawhttp2.Conn
	last uint32 // stream
}

func dialRaw(t testing.TB, g *gatewaytest.Gateway) *rawPeer {
	t.Helper()
	conn, err := rawhttp2.Dial(g.Addr)
	check.Must(t, err)
	check.Cleanup(t, func() { _ = conn.Close() })
	check.Must(t, conn.Greet())
	return &rawPeer{t: t, conn: conn, last: 1}
}

// rawAnswer is the end of a stream.
type rawAnswer struct {
	code   codes.Code
	reason string            // of the gateway; "" if it is a backend's
	fields map[string]string // of the last header block
}

// plainFields returns the fields that any library sends, followed by more.
func plainFields(path string, more ...string) []string {
	fields := append([]string{":method", "POST", ":scheme", "http", ":path", path, ":authority", "gateway.test",
		"content-type", "application/grpc", "te", "trailers"}, more...)
	if !slices.Contains(more, "x-capability-id") {
		fields = append(fields, "x-capability-id", "caps")
	}
	return fields
}

// call makes a call with one DATA frame for each piece of its body, and waits for its end.
func (p *rawPeer) call(fields []string, body ...[]byte) rawAnswer {
	p.t.Helper()
	p.last += 2
	frames := []rawhttp2.Frame{rawhttp2.Headers(p.last, len(body) == 0, p.conn.Block(fields...))}
	for i, piece := range body {
		frames = append(frames, rawhttp2.Data(p.last, i == len(body)-1, piece))
	}
	check.Must(p.t, p.conn.Write(frames...))
	resp, err := p.conn.WaitResponse(p.last)
	if err != nil || resp.Reset {
		p.t.Fatalf("%q: %v, %v", fields, resp, err)
	}
	if resp.Trailer != nil {
		return answerOf(p.t, resp.Trailer)
	}
	return answerOf(p.t, resp.Header)
}

func answerOf(t testing.TB, fields map[string]string) rawAnswer {
	t.Helper()
	a := rawAnswer{code: codes.Unknown, fields: fields}
	if code, err := strconv.ParseUint(fields["grpc-status"], 10, 8); err == nil {
		a.code = codes.Code(code)
	}
	details, err := base64.RawStdEncoding.DecodeString(fields["grpc-status-details-bin"])
	check.Must(t, err)
	var st spb.Status
	check.Must(t, proto.Unmarshal(details, &st))
	for _, d := range st.GetDetails() {
		var info errdetails.ErrorInfo
		if d.UnmarshalTo(&info) == nil && info.GetDomain() == "capgate.dev" {
			a.reason = info.GetReason()
		}
	}
	return a
}
