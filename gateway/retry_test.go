package gateway_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/router"
)

// busy makes a backend record every call and reject it as unavailable, with the given delay if it is not 0, and
// the given pushback if it is not "".
func busy(delay time.Duration, pushback string) grpc.ServerOption {
	return grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler) (any, error) {
		_, _ = handler(ctx, req)
		if pushback != "" {
			_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", pushback))
		}
		st := status.New(codes.Unavailable, "busy")
		if delay > 0 {
			st, _ = st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
		}
		return nil, st.Err()
	})
}

// A call whose backend dies before it responded is retried once if its tool is idempotent; otherwise it ends as
// one that may have run.
func TestIdempotentCallsSurviveTheirBackend(t *testing.T) {
	every(t, func(t *testing.T, client, backend call.Dialect) {
		for name, test := range map[string]struct {
			idempotent []string
			retries    router.Retries
			survives   bool
		}{
			"the tool":            {[]string{"other", gatewaytest.Block}, router.Retries{}, true},
			"all":                 {[]string{"*"}, router.Retries{}, true},
			"another tool":        {[]string{"other"}, router.Retries{}, false},
			"none":                {nil, router.Retries{}, false},
			"the budget is spent": {[]string{"*"}, router.Retries{Share: -1, Floor: -1}, false},
		} {
			for _, streams := range []bool{false, true} {
				if streams && client == call.Legacy {
					continue
				}
				t.Run(fmt.Sprintf("%s/streams %v", name, streams), func(t *testing.T) {
					t.Parallel()
					one, two := gatewaytest.NewCapability("one"), gatewaytest.NewCapability("two")
					first, second := one.Serve(t, backend), two.Serve(t, backend)
					g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
						Capability: "caps", Dialect: backend, Unprobed: true,
						Backends:   []string{first.Addr, second.Addr},
						Idempotent: test.idempotent, Retries: test.retries,
					}}})
					c := gatewaytest.NewClient(g.Conn(t), client)
					ended := make(chan error, 1)
					go func() {
						if streams {
							ended <- streamBlock(c)(t.Context())
						} else {
							ended <- invokeBlock(c)(t.Context())
						}
					}()
					has, other := one, two
					select {
					case <-one.Blocked():
						first.Stop()
					case <-two.Blocked():
						second.Stop()
						has, other = two, one
					}
					if test.survives {
						check.Received(t, other.Blocked(), "the second try")
						other.Release()
						if err := check.Received(t, ended, "the end of the call"); err != nil {
							t.Error(err)
						}
					} else {
						wants(t, check.Received(t, ended, "the end of the call"), codes.Unavailable, "UPSTREAM_LOST")
					}
					if n, m := len(has.Seen()), len(other.Seen()); n != 1 || (m == 1) != test.survives || m > 1 {
						t.Errorf("%d and %d calls", n, m)
					}
				})
			}
		}
	})
}

// A plain UNAVAILABLE is retried at another backend after the requested delay, and reaches the caller unchanged
// if no retry is possible.
func TestIdempotentCallsOfABusyBackend(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		delay    time.Duration
		pushback string
		tool     string
		busy     int // backends, of three
		want     codes.Code
		made     int // number of calls
	}{
		"idempotent":          {tool: gatewaytest.Echo, busy: 1, made: 2},
		"two tries are all":   {tool: gatewaytest.Echo, busy: 3, want: codes.Unavailable, made: 2},
		"not idempotent":      {tool: gatewaytest.Fail, busy: 3, want: codes.Unavailable, made: 1},
		"after a short delay": {delay: 30 * time.Millisecond, tool: gatewaytest.Echo, busy: 1, made: 2},
		"a long delay": {delay: time.Minute, tool: gatewaytest.Echo, busy: 3, want: codes.Unavailable,
			made: 1},
		"after a pushback": {pushback: "20", tool: gatewaytest.Echo, busy: 1, made: 2},
		"a long pushback": {pushback: "60000", tool: gatewaytest.Echo, busy: 3, want: codes.Unavailable,
			made: 1},
		"a pushback for ever": {pushback: "-1", tool: gatewaytest.Echo, busy: 3, want: codes.Unavailable, made: 1},
		"a pushback that is none": {pushback: "soon", tool: gatewaytest.Echo, busy: 3, want: codes.Unavailable,
			made: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all []*gatewaytest.Capability
			var addrs []string
			for i := range 3 {
				c := gatewaytest.NewCapability(fmt.Sprint(i))
				var opts []grpc.ServerOption
				if i < test.busy {
					opts = append(opts, busy(test.delay, test.pushback))
				}
				all, addrs = append(all, c), append(addrs, c.Serve(t, call.Doc, opts...).Addr)
			}
			g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
				Capability: "caps", Dialect: call.Doc, Unprobed: true, Backends: addrs,
				Idempotent: []string{gatewaytest.Echo},
				Ejection:   router.Ejection{Failures: -1},
			}}})
			made := func() (n int) {
				for _, c := range all {
					n += len(c.Seen())
				}
				return n
			}
			client := gatewaytest.NewClient(g.Conn(t), call.Live)
			check.Until(t, "a call to come to a busy one", func() (bool, string) {
				before, began := made(), time.Now()
				var trailer metadata.MD
				_, err := client.Invoke(t.Context(), request(test.tool, `{}`), grpc.Trailer(&trailer))
				if status.Code(err) != test.want {
					t.Fatalf("%v, want %v", err, test.want)
				}
				if err != nil && (retryDelay(err) != test.delay || errorInfo(err) != nil ||
					status.Convert(err).Message() != "busy") {
					t.Errorf("the caller gets %v, retry after %v", err, retryDelay(err))
				}
				if got := trailer.Get("grpc-retry-pushback-ms"); err != nil && test.pushback != "" &&
					(len(got) != 1 || got[0] != test.pushback) {
					t.Errorf("the caller gets the pushback %v", got)
				}
				seen := fmt.Sprint(made(), " calls came, none to it")
				if len(all[0].Seen()) == 0 && test.busy == 1 {
					return false, seen // the others responded at once
				}
				if n := made() - before; n != test.made {
					t.Errorf("made %d times, want %d", n, test.made)
				}
				if test.want == codes.OK && time.Since(began) < test.delay {
					t.Errorf("the second attempt came after %v", time.Since(began))
				}
				return test.busy > 1 || len(all[0].Seen()) > 0, seen
			})
		})
	}
}

// Under load, no idempotent call fails when a backend dies, unless its response has begun.
func TestIdempotentUnderLoad(t *testing.T) {
	t.Parallel()
	first, second := gatewaytest.NewCapability("first"), gatewaytest.NewCapability("second")
	dying := first.Serve(t, call.Doc)
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
		Capability: "caps", Unprobed: true, Dialect: call.Doc, Idempotent: []string{gatewaytest.Echo},
		Backends: []string{dying.Addr, second.Serve(t, call.Doc).Addr},
	}}})
	const workers, each = 8, 100
	done := make(chan error, workers*each)
	for range workers {
		client := gatewaytest.NewClient(g.Conn(t), call.Doc)
		go func() {
			for range each {
				var header metadata.MD
				_, err := client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`), grpc.Header(&header))
				if len(header) > 0 && status.Code(err) == codes.Unavailable {
					err = nil // the caller has the beginning of a response, so that no other can follow
				}
				done <- err
			}
		}()
	}
	for i := range workers * each {
		if i == workers*each/4 {
			dying.Stop()
		}
		if err := check.Received(t, done, "the end of a call"); err != nil {
			t.Error(err)
		}
	}
	if seen := len(first.Seen()) + len(second.Seen()); seen < workers*each || seen > workers*each+workers {
		t.Errorf("%d calls were made %d times", workers*each, seen)
	}
}

// TestDeadlinesReachTheBackend: the backend gets the deadline of the fleet or the caller, minus a margin.
func TestDeadlinesReachTheBackend(t *testing.T) {
	t.Parallel()
	limits := router.Deadlines{Default: 10 * time.Minute, Max: 20 * time.Minute, Stream: 30 * time.Minute}
	for name, test := range map[string]struct {
		limits  router.Deadlines
		asked   time.Duration // 0 means none
		streams bool
		want    time.Duration
	}{
		"default":             {limits: limits, want: 10 * time.Minute},
		"the caller's":        {limits: limits, asked: 15 * time.Minute, want: 15 * time.Minute},
		"at most":             {limits: limits, asked: time.Hour, want: 20 * time.Minute},
		"a stream's":          {limits: limits, streams: true, want: 30 * time.Minute},
		"a stream's at most":  {limits: limits, asked: time.Hour, streams: true, want: 30 * time.Minute},
		"nothing configured":  {want: 2 * time.Minute},
		"nothing, at most":    {asked: time.Hour, want: 15 * time.Minute},
		"nothing, a stream's": {streams: true, want: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			capability := gatewaytest.NewCapability("one")
			g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
				Capability: "caps", Dialect: call.Doc, Unprobed: true,
				Backends:  []string{capability.Serve(t, call.Doc).Addr},
				Deadlines: test.limits,
			}}})
			client := gatewaytest.NewClient(g.Conn(t), call.Doc)
			ctx := t.Context()
			if test.asked > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, test.asked)
				defer cancel()
			}
			var err error
			if test.streams {
				_, err = client.StreamInvoke(ctx, request(gatewaytest.Echo, `{}`))
			} else {
				_, err = client.Invoke(ctx, request(gatewaytest.Echo, `{}`))
			}
			check.Must(t, err)
			if left := capability.Seen()[0].Left; left > test.want-time.Millisecond || left < test.want-time.Minute {
				t.Errorf("the backend has %v, want nearly %v", left, test.want)
			}
		})
	}
}
