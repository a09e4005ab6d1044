package conform_test

import (
	"context"
	"fmt"
	"net"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/examples/weather"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/conform"
	"github.com/capgate/capgate/internal/container"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// runKit runs the kit and returns the names of the rules by verdict.
func runKit(t *testing.T, k conform.Kit) (report conform.Report, by map[conform.Verdict][]string) {
	t.Helper()
	by = map[conform.Verdict][]string{}
	told := 0
	report = k.Run(t.Context(), func(conform.Result) { told++ })
	for _, r := range report.Results {
		by[r.Verdict] = append(by[r.Verdict], r.Rule)
		if r.Says == "" || r.Source == "" || (r.Verdict == conform.Pass) != (r.Why == "") {
			t.Errorf("%+v", r)
		}
	}
	counted := map[conform.Verdict]int{conform.Pass: report.Passed, conform.Fail: report.Failed,
		conform.Skip: report.Skipped, conform.Note: report.Noted}
	for verdict, n := range counted {
		if n != len(by[verdict]) {
			t.Errorf("%d results are %s: %+v", len(by[verdict]), verdict, report)
		}
	}
	if told != len(report.Results) {
		t.Errorf("%d told, %+v", told, report)
	}
	return report, by
}

// lines formats a report.
func lines(report conform.Report) string {
	var b strings.Builder
	for _, r := range report.Results {
		fmt.Fprintln(&b, r.Verdict, r.Dialect, r.Rule, r.Why)
	}
	return b.String()
}

func kit(addr string) conform.Kit {
	return conform.Kit{
		Target: container.Target{Addr: addr}, Harmless: conform.Call{Tool: tool, Args: []byte("{}")},
		BadArgs: []byte(`{"broken":`),
		Wait:    check.Patience, Timeout: check.Patience, Grace: check.Patience,
		Largest: 1 << 20,
	}
}

func TestEveryRuleFindsWhatBreaksIt(t *testing.T) {
	t.Parallel()
	for _, rule := range conform.Rules() {
		dialects := []string{"doc"}
		switch rule.Name {
		case "upload-size":
			dialects = []string{"live"}
		case "context-optional":
			dialects = []string{"legacy"}
		case "unknown-tool", "invoke", "tool-error":
			dialects = []string{"doc", "legacy"}
		}
		for _, dialect := range dialects {
			t.Run(rule.Name+" "+dialect, func(t *testing.T) {
				t.Parallel()
				k := kit("")
				switch dialect {
				case "doc":
					k.Target.Addr = serveBroken(t, rule.Name)
				case "live":
					k.Target.Addr = gatewaytest.Serve(t,
						func(s *grpc.Server) { livepb.RegisterCapabilityServer(s, brokenLive{rule: rule.Name}) }).Addr
					k.Harmless = conform.Call{}
				case "legacy":
					k.Target.Addr = gatewaytest.Serve(t,
						func(s *grpc.Server) {
							legacypb.RegisterCapabilityServiceServer(s, brokenLegacy{rule: rule.Name})
						}).Addr
				}
				switch rule.Name {
				case "health": // the kit waits for it
					k.Wait = 2 * time.Second
				case "large-message":
					k.Largest = 16 << 20
				case "deadline-files", "cancel-files": // these too
					k.Grace = 10 * time.Second
				case "deadline", "cancel":
					k.Grace, k.Slow = 10*time.Second, conform.Call{Tool: slowTool, Args: []byte("{}")}
				}
				report, by := runKit(t, k)
				if !slices.Equal(by[conform.Fail], []string{rule.Name}) {
					t.Errorf("failed: %q\n%s", by[conform.Fail], lines(report))
				}
			})
		}
	}
}

// TestLessObviousFaults: a less obvious violation of a rule also fails it. Results that differ each time are no fault.
func TestLessObviousFaults(t *testing.T) {
	t.Parallel()
	for fault, failed := range map[string][]string{
		"another-result":      {"metadata"},
		"changing-result":     nil,
		"more-after-an-error": {"stream-error"},
		"bytes-of-nothing":    {"download-empty"},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			report, by := runKit(t, kit(serveBroken(t, fault)))
			if !slices.Equal(by[conform.Fail], failed) {
				t.Errorf("failed: %q\n%s", by[conform.Fail], lines(report))
			}
		})
	}
}

// TestAnInterruptedCheckEnds: no rule is checked after the end of the context.
func TestAnInterruptedCheckEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	report := kit(serveBroken(t, "")).Run(ctx, func(one conform.Result) {
		if one.Rule == "health" {
			cancel()
		}
	})
	if n := len(report.Results); n != 3 || report.Results[n-1].Rule != "health" {
		t.Errorf("%d results:\n%s", n, lines(report))
	}
}

// TestAContainerThatStartsLate: the kit waits for a container that refuses the first connection.
func TestAContainerThatStartsLate(t *testing.T) {
	t.Parallel()
	addr := check.ClosedPort(t)
	var start sync.Once
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{ConnectDone: func(_, _ string, err error) {
		if err != nil {
			start.Do(func() {
				ln, err := net.Listen("tcp", addr)
				check.Must(t, err)
				gatewaytest.ServeOn(t, ln, func(s *grpc.Server) { livepb.RegisterCapabilityServer(s, brokenLive{}) })
			})
		}
	}})
	k := kit(addr)
	k.Harmless = conform.Call{}
	if report := k.Run(ctx, func(conform.Result) {}); report.Failed > 0 || report.Passed < 3 {
		t.Error(lines(report))
	}
}

func TestNothingToCheck(t *testing.T) {
	t.Parallel()
	none := gatewaytest.Serve(t, func(*grpc.Server) {}).Addr
	doc := serveBroken(t, "")
	for want, k := range map[string]conform.Kit{
		"fail  port nothing listens at": {Target: container.Target{Addr: check.ClosedPort(t)},
			Wait: time.Second},
		"fail  dialect it has none of": {Target: container.Target{Addr: none}},
		"fail  dialect it speaks doc":  {Target: container.Target{Addr: doc}, Dialects: []call.Dialect{call.Live}},
	} {
		report, by := runKit(t, k)
		if len(by[conform.Fail]) != 1 || by[conform.Skip] != nil || !strings.Contains(lines(report), want) {
			t.Errorf("want %s\n%s; by %+v", want, lines(report), by)
		}
	}
}

// Conforming capabilities, and gatewaytest's, which violate one rule on purpose.
func TestGoodContainers(t *testing.T) {
	t.Parallel()
	demo, err := weather.New(weather.Config{})
	check.Must(t, err)
	served := func(d call.Dialect) func(*testing.T) string {
		return func(t *testing.T) string { return gatewaytest.NewCapability("good").Serve(t, d).Addr }
	}
	echo := conform.Call{Tool: gatewaytest.Echo, Args: []byte(`{"a":"ä"}`)}
	slow := conform.Call{Tool: gatewaytest.Block, Args: []byte(`{}`)}
	for name, test := range map[string]struct {
		serve    func(t *testing.T) (addr string)
		harmless conform.Call
		slow     conform.Call
		skipped  []string
		failed   []string
	}{
		"weather": {
			func(t *testing.T) string {
				return gatewaytest.Serve(t, func(s *grpc.Server) { docpb.RegisterCapabilityServer(s, demo) },
					grpc.MaxRecvMsgSize(16<<20)).Addr
			},
			conform.Call{Tool: "get_forecast", Args: []byte(`{"location":"Berlin"}`)}, conform.Call{},
			[]string{"discovery", "deadline", "cancel"}, nil,
		},
		"good": {func(t *testing.T) string { return serveBroken(t, "") }, conform.Call{Tool: tool},
			conform.Call{Tool: slowTool, Args: []byte("{}")}, []string{"discovery"}, nil},
		// gatewaytest's has a gRPC error for an unknown tool, for its tests.
		"doc": {served(call.Doc), echo, slow, []string{"discovery", "tool-error"},
			[]string{"unknown-tool", "stream-error"}},
		"live": {served(call.Live), echo, slow, []string{"discovery", "tool-error"},
			[]string{"unknown-tool", "stream-error"}},
		"legacy": {served(call.Legacy), echo, slow, []string{"discovery", "tool-error"}, []string{"unknown-tool"}},
		"older": {func(t *testing.T) string {
			return gatewaytest.Serve(t, func(s *grpc.Server) {
				legacypb.RegisterCapabilityServiceServer(s, brokenLegacy{})
			}).Addr
		}, conform.Call{Tool: tool, Args: []byte("{}")}, conform.Call{},
			[]string{"health", "discovery", "deadline", "cancel"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := kit(test.serve(t))
			k.Harmless, k.Slow = test.harmless, test.slow
			if name == "weather" {
				k.Largest = 0 // 16 MiB are not noted
			}
			if k.Harmless.Args == nil {
				k.Harmless.Args = []byte("{}")
			}
			report, by := runKit(t, k)
			if !slices.Equal(by[conform.Fail], test.failed) || !slices.Equal(by[conform.Skip], test.skipped) {
				t.Errorf("skipped: %q\n%s", by[conform.Skip], lines(report))
			}
		})
	}
}

// TestTheUsualMessage: a server with gRPC's default limit conforms, and the report notes the orchestrator's limit.
func TestTheUsualMessage(t *testing.T) {
	t.Parallel()
	addr := gatewaytest.Serve(t, func(s *grpc.Server) { docpb.RegisterCapabilityServer(s, lister{list: "[]"}) },
		grpc.MaxRecvMsgSize(4<<20)).Addr
	k := kit(addr)
	k.Harmless, k.Largest = conform.Call{}, 0
	report, by := runKit(t, k)
	if !slices.Equal(by[conform.Note], []string{"large-message"}) || by[conform.Fail] != nil || report.Noted != 1 ||
		!strings.Contains(lines(report), "note doc large-message a request of 16384 KiB ends with ") {
		t.Error(lines(report), by)
	}
}

// A container without streams and files is checked for the rest, and one with two dialects in both.
func TestPartsThatAreNotThere(t *testing.T) {
	t.Parallel()
	addr := gatewaytest.Serve(t, func(s *grpc.Server) {
		livepb.RegisterCapabilityServer(s, brokenLive{})
		legacypb.RegisterCapabilityServiceServer(s, brokenLegacy{})
	}).Addr
	k := kit(addr)
	k.Harmless = conform.Call{}
	report, by := runKit(t, k)
	if by[conform.Fail] != nil {
		t.Error(lines(report))
	}
	for _, want := range []string{
		"skip live stream no tool may be called: --tool NAME",
		"skip live stream-error it has no StreamInvoke",
		"skip live download it gives no files",
		"pass live upload-size",
		"skip legacy health it has none",
		"pass legacy unknown-tool",
	} {
		if !strings.Contains(lines(report), want) {
			t.Errorf("no %q in\n%s", want, lines(report))
		}
	}
}

// lister is a capability whose discovery tool lists tools.
type lister struct {
	docpb.UnimplementedCapabilityServer
	list string
	look *atomic.Int32 // calls of the tool look
}

func (l lister) Invoke(_ context.Context, req *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
	switch req.GetToolName() {
	case "list_tools":
		return &docpb.InvokeResponse{ResultJson: []byte(l.list)}, nil
	case "look":
		l.look.Add(1)
		return &docpb.InvokeResponse{ResultJson: req.GetArgsJson()}, nil
	}
	return &docpb.InvokeResponse{Error: "no such tool"}, nil
}

func (lister) Healthcheck(context.Context, *docpb.HealthRequest) (*docpb.HealthResponse, error) {
	return &docpb.HealthResponse{Ready: true}, nil
}

func TestTheHarmlessCallIsFound(t *testing.T) {
	t.Parallel()
	const at = `{"name":"%s","description":"d","recommended_policy":"%s",` +
		`"input_schema":{"type":"object","required":["a"],"properties":{"a":%s}}}`
	look := func(policy, schema string) string { return fmt.Sprintf(at, "look", policy, schema) }
	for name, test := range map[string]struct {
		tools string
		want  string // of the line of invoke
	}{
		"examples": {look("allow", `{"examples":["x"]}`), "pass doc invoke"},
		"default":  {look("allow", `{"default":null}`), "pass doc invoke"},
		"const":    {look("allow", `{"const":3}`), "pass doc invoke"},
		"enum":     {look("allow", `{"enum":["x","y"]}`), "pass doc invoke"},
		"not harmless": {look("ask", `{"examples":["x"]}`),
			"skip doc invoke no tool that its author recommends to allow"},
		"no example": {look("allow", `{"type":"string"}`),
			"skip doc invoke no tool that its author recommends to allow"},
		"example that fails": {look("allow", `{"type":"string","examples":[3]}`),
			"skip doc invoke no tool that its author recommends to allow"},
		"no tools": {"", "skip doc invoke no harmless call is known"},
		"the second": {fmt.Sprintf(at, "delete", "block", `{"default":1}`) + "," +
			look("allow", `{"default":1}`), "pass doc invoke"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var looked atomic.Int32
			addr := gatewaytest.Serve(t, func(s *grpc.Server) {
				docpb.RegisterCapabilityServer(s,
					lister{list: "[" + test.tools + "]", look: &looked})
			}).Addr
			k := conform.Kit{Target: container.Target{Addr: addr}, Wait: check.Patience,
				Grace: 5 * time.Second, Timeout: check.Patience, Largest: 1 << 20}
			report, by := runKit(t, k)
			if !strings.Contains(lines(report), "skip doc invoke no tool may be called") || looked.Load() > 0 ||
				by[conform.Fail] != nil {
				t.Errorf("without a harmless call, %d calls of a tool\n%s; by %+v", looked.Load(), lines(report),
					by)
			}
			k.Compose = true
			report, _ = runKit(t, k)
			if !strings.Contains(lines(report), test.want) ||
				(looked.Load() > 0) != strings.HasPrefix(test.want, "pass") {
				t.Errorf("%d calls, no %q in\n%s", looked.Load(), test.want, lines(report))
			}
		})
	}
}
