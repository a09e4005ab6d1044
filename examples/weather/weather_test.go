package weather_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/examples/weather"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// july returns the clock of most tests: 2026-07-16, the middle of a month, where the interpolated value is the table's
// own.
func july() time.Time { return time.Date(2026, time.July, 16, 18, 0, 0, 0, time.UTC) }

// serve starts a capability on a real listener and returns a client of it.
func serve(t *testing.T, cfg weather.Config, opts ...grpc.ServerOption) docpb.CapabilityClient {
	t.Helper()
	if cfg.Now == nil {
		cfg.Now = july
	}
	capability, err := weather.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer(opts...)
	docpb.RegisterCapabilityServer(srv, capability)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := check.Received(t, served, "the end of serving"); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	conn, err := clienttest.NewConn(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return docpb.NewCapabilityClient(conn)
}

// invoke calls a tool and returns its decoded result, or its error.
func invoke[T any](t *testing.T, c docpb.CapabilityClient, tool, args string) (out T, toolError string) {
	t.Helper()
	resp, err := c.Invoke(t.Context(), &docpb.InvokeRequest{ToolName: tool, ArgsJson: []byte(args)})
	if err != nil {
		t.Fatalf("%s %s: %v", tool, args, err)
	}
	if resp.GetError() != "" {
		if len(resp.GetResultJson()) > 0 {
			t.Errorf("%s %s: a result as well as the error", tool, args)
		}
		return out, resp.GetError()
	}
	if err := json.Unmarshal(resp.GetResultJson(), &out); err != nil {
		t.Fatalf("%s %s: %v in %s", tool, args, err, resp.GetResultJson())
	}
	return out, ""
}

// chunks reads a stream to its end and checks that only the last chunk is done.
func chunks(t *testing.T, c docpb.CapabilityClient, tool, args string) []*docpb.InvokeChunk {
	t.Helper()
	stream, err := c.StreamInvoke(t.Context(), &docpb.InvokeRequest{ToolName: tool, ArgsJson: []byte(args)})
	if err != nil {
		t.Fatal(err)
	}
	var all []*docpb.InvokeChunk
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, chunk)
	}
	for i, chunk := range all {
		if last := i == len(all)-1; chunk.GetDone() != last {
			t.Errorf("chunk %d of %d: done = %v", i, len(all), chunk.GetDone())
		}
	}
	return all
}

type day struct {
	Location          string  `json:"location"`
	Country           string  `json:"country"`
	Date              string  `json:"date"`
	Units             string  `json:"units"`
	Temperature       float64 `json:"temperature"`
	NormalTemperature float64 `json:"normal_temperature"`
	TemperatureUnit   string  `json:"temperature_unit"`
	Precipitation     float64 `json:"precipitation"`
	PrecipitationUnit string  `json:"precipitation_unit"`
	Conditions        string  `json:"conditions"`
}

func TestHealthcheckIsReady(t *testing.T) {
	t.Parallel()
	resp, err := serve(t, weather.Config{}).Healthcheck(t.Context(), &docpb.HealthRequest{})
	if err != nil || !resp.GetReady() {
		t.Fatalf("got %v, %v", resp, err)
	}
}

func TestCurrentWeather(t *testing.T) {
	t.Parallel()
	c := serve(t, weather.Config{})
	metric, toolError := invoke[day](t, c, "get_current_weather", `{"location":"Berlin"}`)
	if toolError != "" {
		t.Fatal(toolError)
	}
	if metric.Location != "Berlin" || metric.Country != "Germany" || metric.Date != "2026-07-16" ||
		metric.Units != "metric" || metric.TemperatureUnit != "°C" || metric.PrecipitationUnit != "mm" ||
		metric.Conditions == "" {
		t.Errorf("got %+v", metric)
	}
	if metric.NormalTemperature != 20 {
		t.Errorf("the normal in the middle of July is %v, want the table's 20.0", metric.NormalTemperature)
	}
	if d := metric.Temperature - metric.NormalTemperature; d == 0 || d < -15 || d > 15 {
		t.Errorf("the day differs by %v from the normal", d)
	}
	imperial, _ := invoke[day](t, c, "get_current_weather", `{"location":"Berlin","units":"imperial"}`)
	if want := metric.Temperature*9/5 + 32; imperial.Temperature < want-0.1 || imperial.Temperature > want+0.1 ||
		imperial.TemperatureUnit != "°F" {
		t.Errorf("%v °C became %v %s", metric.Temperature, imperial.Temperature, imperial.TemperatureUnit)
	}
}

func TestSpellings(t *testing.T) {
	t.Parallel()
	c := serve(t, weather.Config{})
	for asked, want := range map[string]string{
		"berlin": "Berlin", " ZURICH ": "Zürich", "Zürich, Switzerland": "Zürich", "sao  paulo": "São Paulo",
		"Sa\u0303o-Paulo": "São Paulo", "reykjavik,iceland": "Reykjavík", "NEW YORK": "New York",
	} {
		args, _ := json.Marshal(map[string]string{"location": asked})
		got, toolError := invoke[day](t, c, "get_current_weather", string(args))
		if got.Location != want {
			t.Errorf("%q: got %q, error %q", asked, got.Location, toolError)
		}
	}
}

func TestForecastWhole(t *testing.T) {
	t.Parallel()
	c := serve(t, weather.Config{})
	days, toolError := invoke[[]day](t, c, "get_forecast", `{"location":"Nairobi"}`)
	if toolError != "" || len(days) != 7 {
		t.Fatalf("%d days, error %q; want the default, 7", len(days), toolError)
	}
	today, _ := invoke[day](t, c, "get_current_weather", `{"location":"Nairobi"}`)
	if days[0] != today {
		t.Errorf("the forecast begins with %+v, today is %+v", days[0], today)
	}
}

func TestForecastStreamsOneChunkPerDay(t *testing.T) {
	t.Parallel()
	c := serve(t, weather.Config{})
	whole, _ := invoke[[]day](t, c, "get_forecast", `{"location":"Oslo","days":14}`)
	got := chunks(t, c, "get_forecast", `{"location":"Oslo","days":14}`)
	if len(got) != 14 || len(whole) != 14 {
		t.Fatalf("%d chunks, %d days", len(got), len(whole))
	}
	for i, chunk := range got {
		var d day
		if err := json.Unmarshal(chunk.GetData(), &d); err != nil {
			t.Fatal(err)
		}
		if want := july().AddDate(0, 0, i).Format(time.DateOnly); d.Date != want || d != whole[i] {
			t.Errorf("chunk %d: %+v, want %s as in the whole answer", i, d, want)
		}
	}
}

func TestOtherToolsStreamOneChunk(t *testing.T) {
	t.Parallel()
	c := serve(t, weather.Config{})
	for tool, args := range map[string]string{
		"get_current_weather": `{"location":"Lima"}`,
		"export_report":       `{"locations":["Lima"]}`,
	} {
		if got := chunks(t, c, tool, args); len(got) != 1 || !json.Valid(got[0].GetData()) {
			t.Errorf("%s: %d chunks", tool, len(got))
		}
	}
}

func TestToolErrors(t *testing.T) {
	t.Parallel()
	c := serve(t, weather.Config{})
	for _, tc := range []struct{ tool, args, want string }{
		{"get_current_weather", `{"location":"Berln"}`, "Berlin, Germany"},
		{"get_current_weather", `{"location":"san fransico"}`, "San Francisco"},
		{"get_current_weather", `{"location":"Zuerich"}`, "Zürich"},
		{"get_current_weather", `{"location":"Rio"}`, "Rio de Janeiro"},
		{"get_current_weather", `{"location":"Paris, Texas"}`, "Paris, France"},
		{"get_current_weather", `{"location":"Xyzzyville"}`, "unknown city"},
		{"get_current_weather", `{"location":"` + strings.Repeat("x", 200) + `"}`, "longer than 100"},
		{"get_current_weather", ``, "location is missing"},
		{"get_current_weather", `{}`, "location is missing"},
		{"get_current_weather", `null`, "location is missing"},
		{"get_current_weather", `{"location":7}`, "location cannot be a JSON number"},
		{"get_current_weather", `{"location":"Berlin","unit":"metric"}`, "unit"},
		{"get_current_weather", `{"location":"Berlin","units":"kelvin"}`, "metric or imperial"},
		{"get_current_weather", `{"location":`, "bad arguments"},
		{"get_current_weather", `[]`, "want a JSON object"},
		{"get_current_weather", `{"location":"Berlin"} {}`, "unexpected data"},
		{"get_forecast", `{"location":"Berlin","days":0}`, "1 to 14"},
		{"get_forecast", `{"location":"Berlin","days":15}`, "1 to 14"},
		{"get_forecast", `{"location":"Berlin","days":"3"}`, "days cannot be"},
		{"export_report", `{"locations":["Berlin","Pariss"]}`, "Paris, France"},
		{"export_report", `{"locations":[]}`, "empty"},
		{"export_report", `{"attachments":[{"capability_artifact_id":"nope"}]}`, "no attachment"},
		{"delete_weather", `{}`, "export_report, get_current_weather, get_forecast"},
		{"", `{}`, "unknown tool"},
	} {
		if _, got := invoke[json.RawMessage](t, c, tc.tool, tc.args); !strings.Contains(got, tc.want) {
			t.Errorf("%s %s: error %q, want %q in it", tc.tool, tc.args, got, tc.want)
		}
		got := chunks(t, c, tc.tool, tc.args)
		if len(got) != 1 || !strings.Contains(got[0].GetError(), tc.want) || len(got[0].GetData()) > 0 {
			t.Errorf("%s %s streamed: %v, want one chunk with %q", tc.tool, tc.args, got, tc.want)
		}
	}
}

func TestCancelledCallIsCanceled(t *testing.T) {
	t.Parallel()
	capability, err := weather.New(weather.Config{Now: july})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tool := range []string{"get_current_weather", "get_forecast", "export_report"} {
		resp, err := capability.Invoke(ctx, &docpb.InvokeRequest{ToolName: tool, ArgsJson: []byte(`{}`)})
		if status.Code(err) != codes.Canceled {
			t.Errorf("%s: got %v, %v", tool, resp, err)
		}
	}
}
