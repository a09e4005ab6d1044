package status

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// unpack reads a status as a gRPC client would.
func unpack(tb testing.TB, s relay.Status) (*status.Status, *errdetails.ErrorInfo, *errdetails.RetryInfo) {
	tb.Helper()
	var p spb.Status
	if err := proto.Unmarshal(s.Details, &p); err != nil {
		tb.Fatal(err)
	}
	st := status.FromProto(&p)
	if uint32(st.Code()) != s.Code || st.Message() != s.Message {
		tb.Errorf("trailers say %d %q, details say %d %q", s.Code, s.Message, st.Code(), st.Message())
	}
	var info *errdetails.ErrorInfo
	var retry *errdetails.RetryInfo
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.RetryInfo:
			retry = d
		default:
			tb.Errorf("detail %T", d)
		}
	}
	if info == nil || info.GetDomain() != "capgate.dev" {
		tb.Fatalf("ErrorInfo: %v", info)
	}
	return st, info, retry
}

// constants counts the constants of the block in a Go file whose first is of that
// type, so that a row is missed on the day when a constant is added.
func constants(tb testing.TB, file, typ string) int {
	tb.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		tb.Fatal(err)
	}
	for _, decl := range f.Decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		if id, ok := g.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident); ok && id.Name == typ {
			return len(g.Specs)
		}
	}
	tb.Fatalf("no constants of type %s in %s", typ, file)
	return 0
}

func TestEveryKindHasARow(t *testing.T) {
	t.Parallel()
	if n := constants(t, "../../internal/call/refusal.go", "Kind"); len(kindCodes) != n {
		t.Fatalf("%d rows for %d kinds", len(kindCodes), n)
	}
	seen := make(map[codes.Code]call.Kind)
	for k := range kindCodes {
		r := &call.Refusal{Kind: call.Kind(k), Reason: "WHY", Message: "because",
			Metadata: map[string]string{"capability": "weather"}}
		st, info, retry := unpack(t, Relayed(r, call.NotSent))
		if other, dup := seen[st.Code()]; dup || st.Code() == codes.OK {
			t.Errorf("kind %d has the code of kind %d: %v; dup %+v", k, other, st.Code(), dup)
		}
		seen[st.Code()] = call.Kind(k)
		if st.Message() != "because" || info.GetReason() != "WHY" || info.GetMetadata()["capability"] != "weather" ||
			retry != nil {
			t.Errorf("kind %d: %v; info %+v; retry %+v", k, st, info, retry)
		}
	}
	if s := Relayed(&call.Refusal{Kind: 200}, call.Answered); codes.Code(s.Code) != codes.Internal {
		t.Errorf("a kind without a row is %v", codes.Code(s.Code))
	}
}

func TestEveryFailureHasARow(t *testing.T) {
	t.Parallel()
	if n := constants(t, "../relay/handler.go", "Failure"); len(failures) != n {
		t.Fatalf("%d rows for %d failures", len(failures), n)
	}
	table := NewCache()
	for f, row := range failures {
		for _, p := range []call.Progress{call.NotSent, call.Sent} {
			ran := p == call.Sent
			got := table.Failure(relay.Failure(f), p)
			st, info, retry := unpack(t, got)
			if st.Code() != row.code || row.code == codes.OK || info.GetReason() == "" || retry != nil ||
				!strings.HasPrefix(st.Message(), row.message) || strings.HasSuffix(st.Message(), ranText) != ran {
				t.Errorf("%d: %v; row %+v; info %+v; retry %+v", f, st, row, info, retry)
			}
			if f > 0 && info.GetReason() != relay.Failure(f).String() {
				t.Errorf("%v has reason %s", relay.Failure(f), info.GetReason())
			}
			if (info.GetMetadata()[call.NotStarted] == "true") == ran || got.NoRetry != ran {
				t.Errorf("%v, which may have run %v: %v, no retry %v", relay.Failure(f), ran, info, got.NoRetry)
			}
			if !reflect.DeepEqual(got, Failure(relay.Failure(f), p)) {
				t.Errorf("%v: the table says otherwise", relay.Failure(f))
			}
		}
	}
	if s := table.Failure(200, call.Sent); codes.Code(s.Code) != codes.Internal {
		t.Errorf("a failure without a row is %v", codes.Code(s.Code))
	}
}

func TestFailureCodes(t *testing.T) {
	t.Parallel()
	for f, want := range map[relay.Failure]codes.Code{
		relay.UpstreamLost: codes.Unavailable, relay.UpstreamProtocol: codes.Internal,
		relay.DeadlineExceeded: codes.DeadlineExceeded, relay.MessageTooLarge: codes.ResourceExhausted,
		relay.MessageMalformed: codes.InvalidArgument, relay.MessageTimeout: codes.DeadlineExceeded,
		relay.MemoryExceeded: codes.ResourceExhausted, relay.Draining: codes.Unavailable,
		relay.ClientGone: codes.Canceled,
	} {
		if got := codes.Code(Failure(f, call.NotSent).Code); got != want {
			t.Errorf("%v is %v, want %v", f, got, want)
		}
	}
}

func TestStatusDetails(t *testing.T) {
	t.Parallel()
	_, _, retry := unpack(t, Relayed(&call.Refusal{Kind: call.ResourceExhausted, RetryAfter: 1500 * time.Millisecond},
		call.NotSent))
	if d := retry.GetRetryDelay().AsDuration(); d != 1500*time.Millisecond {
		t.Errorf("retry after %v", d)
	}
	metadata := map[string]string{"cap\xff": "we\xc3"}
	st, info, _ := unpack(t, Relayed(&call.Refusal{Kind: call.NotFound, Message: "no \xff", Metadata: metadata},
		call.Answered))
	if st.Message() != "no \uFFFD" || info.GetMetadata()["cap\uFFFD"] != "we\uFFFD" {
		t.Errorf("invalid UTF-8 became %v; info %+v", st, info)
	}
	if metadata["cap\xff"] != "we\xc3" {
		t.Error("the refusal was changed")
	}
}

// TestProgress: a client learns from a refusal whether it may repeat the call. A reason that implies that the call may
// have run counts more than the progress of this call.
func TestProgress(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		p                          call.Progress
		implied                    call.Progress
		notStarted, again, noRetry bool
	}{
		"no backend got it":               {call.NotSent, call.NotSent, true, true, false},
		"a backend may have got it":       {call.Sent, call.NotSent, false, false, true},
		"its service answers":             {call.Answered, call.NotSent, false, true, false},
		"its service answers for another": {call.Answered, call.Sent, false, false, true},
		"it is for an earlier call":       {call.NotSent, call.Sent, false, false, true},
	} {
		r := &call.Refusal{Kind: call.Unavailable, Reason: "WHY", RetryAfter: time.Second, Progress: test.implied}
		got := Relayed(r, test.p)
		_, info, retry := unpack(t, got)
		if got.NoRetry != test.noRetry || (retry != nil) != test.again ||
			(info.GetMetadata()[call.NotStarted] == "true") != test.notStarted {
			t.Errorf("%s: no retry %t, %v, %v", name, got.NoRetry, info, retry)
		}
	}
}

func TestStatusesRememberAndStayBounded(t *testing.T) {
	t.Parallel()
	table := NewCache()
	shared := &call.Refusal{Kind: call.Unavailable, Reason: "NO_BACKEND", Message: "none"}
	first := table.Refusal(shared, call.NotSent)
	if again := table.Refusal(shared, call.NotSent); &again.Details[0] != &first.Details[0] {
		t.Error("a shared refusal was marshalled twice")
	}
	for i := range 5000 {
		own := &call.Refusal{Kind: call.NotFound, Reason: "UNKNOWN_CAPABILITY", Message: strconv.Itoa(i)}
		if got := table.Refusal(own, call.NotSent); got.Message != own.Message {
			t.Fatalf("got %q for %q", got.Message, own.Message)
		}
	}
	if again := table.Refusal(shared, call.NotSent); !reflect.DeepEqual(again, first) {
		t.Errorf("later the shared refusal is %v", again)
	}
}

func TestHTTPStatus(t *testing.T) {
	t.Parallel()
	want := []int{200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401}
	for code, status := range want {
		if got := HTTP(codes.Code(code)); got != status {
			t.Errorf("%v is %d, want %d", codes.Code(code), got, status)
		}
	}
	if got := HTTP(99); got != 500 {
		t.Errorf("an unknown code is %d", got)
	}
}

// TestHTTPOfReasons: a reason may have another HTTP status than its code; an error that a backend reported in an answer
// is not one of the gateway.
func TestHTTPOfReasons(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]int{"HOST_UNKNOWN": 421, "BODY_TOO_LARGE": 413, "TOOL_FAILED": 422, "": 422} {
		if got := HTTPOf(reason, codes.Unknown); got != want {
			t.Errorf("%s is %d, want %d", reason, got, want)
		}
	}
	if got := HTTPOf("RATE_LIMITED", codes.ResourceExhausted); got != 429 {
		t.Errorf("a reason without a row is %d", got)
	}
}

func BenchmarkStatuses(b *testing.B) {
	table := NewCache()
	shared := &call.Refusal{Kind: call.Unavailable, Reason: "NO_BACKEND", Message: "no backend can take the call"}
	b.Run("shared", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			table.Refusal(shared, call.NotSent)
		}
	})
	b.Run("own", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			own := *shared
			table.Refusal(&own, call.NotSent)
		}
	})
}
