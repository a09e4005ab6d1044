package grpcservice_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/grpctest"
)

// sources are the places from which a fleet may read its descriptors.
var sources = map[string]struct {
	reflection grpctest.Reflection
	file       bool
}{
	"reflection v1":      {reflection: grpctest.V1},
	"reflection v1alpha": {reflection: grpctest.V1Alpha},
	"descriptor file":    {reflection: grpctest.NoReflection, file: true},
}

// inEach runs a test with each of the sources.
func inEach(t *testing.T, test func(t *testing.T, s *grpctest.Server, w *serviceGateway)) {
	t.Helper()
	t.Parallel()
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := grpctest.Start(t, grpctest.Options{Reflection: source.reflection})
			test(t, s, start(t, func(f *upstream.Fleet, _ *gatewaytest.Fleet) {
				f.Headers = map[string]string{"authorization": "Bearer ours"}
				if source.file {
					f.Content = definitions(t)
				}
			}, s.Addr))
		})
	}
}

// TestTools: methods without client streaming are tools.
func TestTools(t *testing.T) {
	inEach(t, func(t *testing.T, _ *grpctest.Server, w *serviceGateway) {
		tools := w.listed(t)
		if got := slices.Sorted(maps.Keys(tools)); !slices.Equal(got,
			[]string{"Count", "Echo", "Fail", "Raw", "Wait"}) {
			t.Fatalf("%s", got)
		}
		if text := tools["Echo"].Description; text != "Echo returns what it gets.\n\nIt has no side effects." {
			t.Errorf("%q", text)
		}
		if text := tools["Count"].Description; !strings.HasPrefix(text, "Count sends numbers.") ||
			!strings.Contains(text, "a list") {
			t.Errorf("%q", text)
		}
	})
}

// everything is a message with a value of each type, as protobuf's JSON has it.
const everything = `{"cityName":"Ulm <1>","int32":-7,"int64":"-9007199254740993","uint64":"18446744073709551615",` +
	`"number":1.5,"bytes":"AAH/","flag":true,"color":"COLOR_RED","tags":["a","b"],"children":{"x":{"int32":1}},` +
	`"byNumber":{"-3":"c"},"time":"2026-01-31T12:00:00Z","duration":"1.500s","struct":{"a":[1,null,"b"]},` +
	`"value":[true],` +
	`"any":{"@type":"type.googleapis.com/demo.v1.CountRequest","to":3},"wrapped":"12","mask":"cityName,children",` +
	`"right":0,"maybe":"","next":{"next":{"int32":3}},"uint32":4294967295,"small":0.5,"otherName":"n",` +
	`"byFlag":{"true":1}}`

// TestCalls: each type goes to the backend and back.
func TestCalls(t *testing.T) {
	inEach(t, func(t *testing.T, s *grpctest.Server, w *serviceGateway) {
		got := w.result(t, "Echo", everything)
		for _, want := range []string{`"cityName":"Ulm <1>"`, `"int32":-7`, `"int64":"-9007199254740993"`,
			`"uint64":"18446744073709551615"`, `"number":1.5`, `"bytes":"AAH/"`, `"flag":true`, `"color":"COLOR_RED"`,
			`"tags":["a","b"]`, `"children":{"x":{"cityName":"","int32":1,`, `"byNumber":{"-3":"c"}`,
			`"time":"2026-01-31T12:00:00Z"`, `"duration":"1.500s"`, `"struct":{"a":[1,null,"b"]}`, `"value":[true]`,
			`"any":{"@type":"type.googleapis.com/demo.v1.CountRequest","to":3`, `"wrapped":"12"`,
			`"mask":"cityName,children"`, `"right":0`, `"maybe":""`, `"uint32":4294967295`, `"small":0.5`,
			`"otherName":"n"`, `"byFlag":{"true":1}`} {
			if !strings.Contains(got, want) {
				t.Errorf("%s is not in %s", want, got)
			}
		}
		if code, text := w.post(t, "Echo", `{"int64":12}`); code != 200 || !strings.Contains(text, `"int64":"12"`) ||
			!strings.Contains(text, `"flag":false`) {
			t.Errorf("over JSON: %d %s", code, text)
		}
		ctx := metadata.AppendToOutgoingContext(within(t), "authorization", "Bearer theirs",
			"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x-capgate-tenant", "other")
		if _, err := w.Invoke(ctx, request("Echo", ``)); err != nil {
			t.Error(err)
		}
		md := s.Metadata()
		if got := md.Get("authorization"); len(got) != 1 || got[0] != "Bearer ours" {
			t.Errorf("the backend saw the credential %q", got)
		}
		if got := md.Get("traceparent"); len(got) != 1 || !strings.Contains(got[0],
			"0af7651916cd43dd8448eb211c80319c") {
			t.Errorf("traceparent %q", got)
		}
	})
}

// TestWrongArguments: what has more than one reading, or none, never reaches the backend, and no error has a value.
func TestWrongArguments(t *testing.T) {
	t.Parallel()
	s := grpctest.Start(t, grpctest.Options{})
	w := start(t, nil, s.Addr)
	for args, want := range map[string]string{
		`[1]`:                                   "object",
		`{`:                                     "",
		`{"flag":true,"flag":false}`:            "twice",
		`{"secret":1}`:                          "",
		`{"city_name":"secret"}`:                "", // policies decide on cityName
		`{"cityName":"a","city_name":"secret"}`: "",
		`{"int32":"12"}`:                        "",
		`{"int32":2147483648}`:                  "",
		`{"int64":"1e3"}`:                       "",
		`{"color":"COLOR_SECRET"}`:              "",
		`{"color":1}`:                           "",
		`{"bytes":"-_secret"}`:                  "",
		`{"bytes":"secre"}`:                     "base64",
		`{"byNumber":{"01":"secret"}}`:          "",
		`{"byNumber":{"secret":"x"}}`:           "",
		`{"time":"secret"}`:                     "timestamp",
		`{"duration":"999999999999s"}`:          "duration",
		`{"left":"secret","right":1}`:           "oneof",
		`{"any":{"@type":"type.googleapis.com/secret.Type"}}`:                     "Any",
		`{"any":{"@type":"type.googleapis.com/demo.v1.CountRequest","secret":1}}`: "unknown field",
		`{"mask":"not_secret"}`: "",
		`{"cityName":null}`:     "",
		strings.Repeat(`{"next":`, 101) + `{}` + strings.Repeat(`}`, 101): "",
	} {
		got, err := w.Invoke(within(t), request("Echo", args))
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %s, %v", args, got.GetResultJson(), err)
		}
		if err != nil && strings.Contains(err.Error(), "SECRET") || strings.Contains(fmt.Sprint(err), "-_secret") {
			t.Errorf("%.60s: the error has a value: %v", args, err)
		}
	}
	if n := s.Calls(); n != 0 {
		t.Errorf("%d calls came", n)
	}
	if _, err := w.Invoke(within(t), request("Collect", `{}`)); status.Code(err) != codes.NotFound {
		t.Errorf("a method with client streaming: %v", err)
	}
}

// TestStreams: the messages of a stream are chunks, events and a list.
func TestStreams(t *testing.T) {
	inEach(t, func(t *testing.T, _ *grpctest.Server, w *serviceGateway) {
		want := []string{`{"number":1,"filler":""}`, `{"number":2,"filler":""}`, `{"number":3,"filler":""}`}
		if got, err := w.collect(t, "Count", `{"to":3}`); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s, %v", got, err)
		}
		if got := w.result(t, "Count", `{"to":3}`); got != "["+strings.Join(want, ",")+"]" {
			t.Errorf("%s", got)
		}
		if got := w.result(t, "Count", ``); got != "[]" {
			t.Errorf("no message: %s", got)
		}
		if got, err := w.collect(t, "Count", ``); err != nil || len(got) != 0 {
			t.Errorf("no message: %s, %v", got, err)
		}
		if got, err := w.collect(t, "Echo", `{"int32":1}`); err != nil || len(got) != 1 {
			t.Errorf("a method without a stream: %s, %v", got, err)
		}
		code, text := w.post(t, "Count", `{"to":3}`, "Accept", "text/event-stream")
		if code != 200 || strings.Count(text, `number`) != 3 {
			t.Errorf("server-sent events: %d %s", code, text)
		}
		got, err := w.collect(t, "Count", `{"to":2,"fail":true}`)
		if status.Code(err) != codes.DataLoss || len(got) != 2 {
			t.Errorf("a stream that fails: %s, %v", got, err)
		}
		if _, err := w.Invoke(within(t), request("Count", `{"to":2,"fail":true}`)); status.Code(err) != codes.DataLoss {
			t.Errorf("a stream that fails: %v", err)
		}
	})
}

// TestStatuses: a status of the backend passes unchanged, with its details.
func TestStatuses(t *testing.T) {
	inEach(t, func(t *testing.T, _ *grpctest.Server, w *serviceGateway) {
		for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
			_, err := w.Invoke(within(t), request("Fail", fmt.Sprintf(`{"code":%d,"message":"as it is"}`, code)))
			st := status.Convert(err)
			if st.Code() != code || st.Message() != "as it is" || len(st.Details()) != 1 {
				t.Errorf("%v: %v, %v", code, err, st.Details())
			}
		}
	})
}

// TestCancel: the cancellation of a call, and its deadline, reach the backend.
func TestCancel(t *testing.T) {
	inEach(t, func(t *testing.T, s *grpctest.Server, w *serviceGateway) {
		for _, c := range []struct {
			tool, args string
			stream     bool
		}{{"Wait", ``, false}, {"Wait", ``, true}, {"Count", `{"endless":true}`, true}} {
			ctx, cancel := context.WithCancel(within(t))
			ended := make(chan error, 1)
			go func() {
				if !c.stream {
					_, err := w.Invoke(ctx, request(c.tool, c.args))
					ended <- err
					return
				}
				stream, err := w.StreamInvoke(ctx, request(c.tool, c.args))
				for err == nil {
					_, err = stream.Recv()
				}
				ended <- err
			}()
			check.Received(t, s.Began, "the start of the call at the service")
			cancel()
			if err := check.Received(t, ended, "the end of the call"); status.Code(err) != codes.Canceled {
				t.Errorf("%+v: %v", c, err)
			}
			if err := check.Received(t, s.Ended, "the end of the call at the service"); err == nil {
				t.Errorf("%+v: the backend's call did not end", c)
			}
		}
	})
}

// TestDeadline: the deadline of the fleet ends a call that does not.
func TestDeadline(t *testing.T) {
	t.Parallel()
	for tool, args := range map[string]string{"Wait": ``, "Count": `{"endless":true,"size":1000}`} {
		s := grpctest.Start(t, grpctest.Options{})
		for limit := 100 * time.Millisecond; len(s.Began) == 0; limit *= 2 { // until it suffices to reach the service
			w := start(t, func(f *upstream.Fleet, of *gatewaytest.Fleet) {
				f.Content = definitions(t)
				of.Deadlines.Default, of.Deadlines.Max = limit, limit
			}, s.Addr)
			_, err := w.Invoke(within(t), request(tool, args))
			if code := status.Code(err); code != codes.DeadlineExceeded &&
				(tool == "Wait" || code != codes.ResourceExhausted) {
				t.Fatalf("%s: %v", tool, err)
			}
		}
		if err := check.Received(t, s.Ended, "the end of the call at the service"); err == nil {
			t.Errorf("%s did not end", tool)
		}
	}
}

// TestLargeMessages: each message and each result has its limit.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	s := grpctest.Start(t, grpctest.Options{Server: []grpc.ServerOption{grpc.MaxRecvMsgSize(64 << 20)}})
	w := start(t, func(f *upstream.Fleet, _ *gatewaytest.Fleet) { settings(f).MaxMessage = 64 << 10 }, s.Addr)
	if got := w.result(t, "Count", `{"to":1,"size":60000}`); len(got) < 60000 {
		t.Errorf("%d bytes", len(got))
	}
	for _, args := range []string{`{"to":1,"size":70000}`, `{"to":3,"size":60000}`, `{"endless":true}`} {
		if _, err := w.Invoke(within(t), request("Count", args)); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s: %v", args, err)
		}
	}
	if got, err := w.collect(t, "Count", `{"to":5,"size":60000}`); err != nil || len(got) != 5 {
		t.Errorf("a stream has no limit but that of each message: %d, %v", len(got), err)
	}
}
