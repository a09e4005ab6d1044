package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy/approvals"
)

// denial is the response to a caller whose call a person denies.
type denial struct{ message, reason, comment string }

// A denialDoor makes one call of the tool echo over a protocol, with pairs of a header and its value. The call
// must be denied.
type denialDoor struct {
	name string
	call func(t *testing.T, g *gatewaytest.Gateway, args string, header []string) denial
}

func denialByInfo(message string, info *errdetails.ErrorInfo) denial {
	return denial{message, info.GetReason(), info.GetMetadata()["comment"]}
}

func denialByConnect(err error) denial {
	var failed *connect.Error
	if !errors.As(err, &failed) {
		return denial{message: "no error of Connect"}
	}
	for _, d := range failed.Details() {
		if m, err := d.Value(); err == nil {
			if info, ok := m.(*errdetails.ErrorInfo); ok {
				return denialByInfo(failed.Message(), info)
			}
		}
	}
	return denial{message: failed.Message()}
}

// byGRPC returns the door of a gRPC client.
func byGRPC(name string, d call.Dialect, streams bool) denialDoor {
	return denialDoor{name, func(t *testing.T, g *gatewaytest.Gateway, args string, header []string) denial {
		client, req := gatewaytest.NewClient(g.Conn(t), d), request(gatewaytest.Echo, args)
		var err error
		if streams {
			_, err = client.StreamInvoke(with(t.Context(), header...), req)
		} else {
			_, err = client.Invoke(with(t.Context(), header...), req)
		}
		return denialByInfo(status.Convert(err).Message(), errorInfo(err))
	}}
}

// byWeb returns the door of a connect-go client.
func byWeb(name string, streams bool, options ...connect.ClientOption) denialDoor {
	return denialDoor{name, func(t *testing.T, g *gatewaytest.Gateway, args string, header []string) denial {
		client, req := newWebClient(g.HTTP2(t), g.URL(""), options...),
			connect.NewRequest(request(gatewaytest.Echo, args))
		for i := 0; i < len(header); i += 2 {
			req.Header().Set(header[i], header[i+1])
		}
		var err error
		if streams {
			_, _, err = all(client.stream.CallServerStream(t.Context(), req))
		} else {
			_, err = client.invoke.CallUnary(t.Context(), req)
		}
		return denialByConnect(err)
	}}
}

// byHTTP returns the door of a JSON client. It states the wait as a preference.
func byHTTP(name, path, accept string) denialDoor {
	return denialDoor{name, func(t *testing.T, g *gatewaytest.Gateway, args string, header []string) denial {
		header = append([]string{"Accept", accept}, header...)
		for i := range header {
			if header[i] == waitsLong[0] {
				header[i], header[i+1] = "Prefer", "wait="+header[i+1]
			}
		}
		resp := ask(t.Context(), t, g.HTTP1(t), g, http.MethodPost, path,
			`{"tool_name":"echo","args":`+args+`}`, header...)
		body := bodyOf(t, resp)
		if _, data, ok := strings.Cut(body, "event: error\ndata: "); ok {
			body = data
		}
		var p problem.Problem
		if err := json.Unmarshal([]byte(lastProblem(strings.TrimSpace(body))), &p); err != nil {
			t.Errorf("%s %s: %v", resp.Status, body, err)
		}
		return denial{p.Detail, p.Reason, p.Metadata["comment"]}
	}}
}

// waitsLong is the header of a call that waits for approval.
var waitsLong = [2]string{"x-approval-wait", "60"}

var denialDoors = []denialDoor{
	byGRPC("gRPC", call.Doc, false),
	byGRPC("gRPC, a stream", call.Live, true),
	byGRPC("gRPC, translated", call.Legacy, false),
	byWeb("gRPC-Web", false, connect.WithGRPCWeb()),
	byWeb("gRPC-Web, a stream", true, connect.WithGRPCWeb()),
	byWeb("Connect", false),
	byWeb("Connect with JSON", false, connect.WithProtoJSON()),
	byWeb("Connect, a stream", true),
	byWeb("Connect with JSON, a stream", true, connect.WithProtoJSON()),
	byHTTP("JSON", "caps/invoke", "application/json"),
	byHTTP("server-sent events", "caps/stream", asEvents),
	byHTTP("lines", "caps/stream", asLines),
}

// denialComments are approvers' comments, and the text that callers receive.
var denialComments = map[string][2]string{
	"plain":     {"ask Ann first", "ask Ann first"},
	"control":   {"a\x00b\x1b[2Jc\x7fd\u0085e\r", "a\ufffdb\ufffd[2Jc\ufffdd\ufffde\ufffd"},
	"bidi":      {"exe.\u202egnp\u2066x\u2069\u200b", "exe.\ufffdgnp\ufffdx\ufffd\ufffd"},
	"quotes":    {`"}],'<b>\"\\u0000` + "`", `"}],'<b>\"\\u0000` + "`"},
	"newlines":  {"one\ndata: {}\n\nevent: done\ttwo", "one\ndata: {}\n\nevent: done\ttwo"},
	"percent":   {"100%, %0d%0a%s%n%zz %", "100%, %0d%0a%s%n%zz %"},
	"no UTF-8":  {"a\xff\xc3", "a\ufffd"}, // consecutive bytes count as one
	"multibyte": {"x" + strings.Repeat("ä", 511), "x" + strings.Repeat("ä", 255)},
	"emoji":     {"xyz" + strings.Repeat("\U0001f600", 255), "xyz" + strings.Repeat("\U0001f600", 127)},
	"invisible": {strings.Repeat("\x01", 1024), strings.Repeat("\ufffd", 170)},
}

// TestTheReasonOfADenialReachesTheCaller: in every protocol, the approver's comment reaches a call that waits,
// one that redeems its approval and one that is repeated. The comment is bounded and sanitized, and the message
// is one line.
func TestTheReasonOfADenialReachesTheCaller(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	f := behindDesk(t, d, nil)
	for name, comment := range denialComments {
		for i, door := range denialDoors {
			args, err := json.Marshal(map[string]any{"comment": name, "door": i})
			check.Must(t, err)
			waited := make(chan denial, 1)
			go func() { waited <- door.call(t, f.gateway, string(args), waitsLong[:]) }()
			id := d.next(t, approvals.EventCreated).ID
			if _, err := d.Deny(context.Background(), "default", id,
				approvals.Answer{Comment: comment[0]}); err != nil {
				t.Fatal(err)
			}
			for way, got := range map[string]denial{
				"waits":   check.Received(t, waited, "the end of the wait"),
				"redeems": door.call(t, f.gateway, string(args), []string{"x-approval-id", id}),
				"again":   door.call(t, f.gateway, string(args), nil),
			} {
				checkDenial(t, name+", "+door.name+", "+way, got, comment[1])
			}
		}
	}
	if n := len(f.capability.Seen()); n != 0 {
		t.Errorf("%d calls at the backend", n)
	}
}

func checkDenial(t *testing.T, what string, got denial, comment string) {
	t.Helper()
	inMessage := strings.NewReplacer("\n", " ", "\t", " ").Replace(comment)
	denied := regexp.MustCompile(`^this call was denied, until \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ: |^the call was denied: `)
	if got.reason != "APPROVAL_DENIED" || got.comment != comment || len(got.comment) > 512 ||
		denied.ReplaceAllString(got.message, "") != inMessage {
		t.Errorf("%s: got %q %q %q, want %q", what, got.reason, got.message, got.comment, comment)
	}
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	if !utf8.ValidString(got.message) || strings.ContainsFunc(got.message, hidden) {
		t.Errorf("%s: the message %q", what, got.message)
	}
}
