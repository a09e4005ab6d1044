package router_test

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router"
)

func newTable(t testing.TB, cfg router.Config, prev *router.Table) *router.Table {
	t.Helper()
	table, err := router.NewTable(cfg, prev)
	check.Must(t, err)
	return table
}

// all is a caller that may use every capability.
type all struct{}

func (all) Sees(string) bool { return true }

// only is a caller that may use one capability.
type only string

func (o only) Sees(capability string) bool { return string(o) == capability }

// TestResolveTellsNothingOfOthers: another tenant's capability is indistinguishable from one that does not exist,
// however it is named.
func TestResolveTellsNothingOfOthers(t *testing.T) {
	t.Parallel()
	const domain = "caps.test"
	table := newTable(t, router.Config{Domains: []string{domain}, Fleets: []router.FleetConfig{
		{Capability: "weather", Services: []string{"p.Weather"}}, {Capability: "news", Services: []string{"p.News"}},
	}}, nil)
	without := newTable(t, router.Config{
		Domains: []string{domain}, Fleets: []router.FleetConfig{
			{Capability: "weather", Services: []string{"p.Weather"}}},
	}, nil)
	for _, k := range []router.Key{
		{Metadata: "news"}, {Message: "news"}, {Metadata: "news", Message: "news"},
		{Metadata: "news", Service: "p.News"},
		{Authority: "news." + domain}, {Authority: "NEWS." + domain + ":1"}, {
			Authority: "news." + domain, Metadata: "news", Service: "p.News",
		},
		{Service: "p.News"}, {Service: "p.News", Authority: domain}, {Service: "p.News", Foreign: true},
		{Metadata: "news", Message: "weather"},
		{Metadata: "weather", Authority: "news." + domain},
	} {
		f, got := table.Resolve(k, only("weather"))
		g, want := without.Resolve(k, only("weather"))
		if f != nil || g != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %v, %+v; were there none: %+v; g %+v", k, f, got, want, g)
		}
	}
	if f, refusal := table.Resolve(router.Key{Service: "p.Weather"}, only("weather")); refusal != nil ||
		f.Capability != "weather" {
		t.Errorf("its own: %v, %v", f, refusal)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	table := newTable(t, router.Config{
		Domains: []string{"Caps.Example.com", "other.test"},
		Fleets: []router.FleetConfig{
			{Capability: "weather", Backends: router.Addrs("w:1")},
			{Capability: "news", Services: []string{"p.News"}, Backends: router.Addrs("n:1")},
		},
	}, nil)
	long := strings.Repeat("x", 100)
	for name, test := range map[string]struct {
		key      router.Key
		want     string // capability, or the reason of the refusal
		kind     call.Kind
		metadata map[string]string
	}{
		"metadata":                   {router.Key{Metadata: "weather"}, "weather", 0, nil},
		"message":                    {router.Key{Message: "weather"}, "weather", 0, nil},
		"authority":                  {router.Key{Authority: "weather.caps.example.com"}, "weather", 0, nil},
		"authority with port":        {router.Key{Authority: "weather.caps.example.com:8080"}, "weather", 0, nil},
		"authority in capitals":      {router.Key{Authority: "WeaTher.CAPS.example.COM.:1"}, "weather", 0, nil},
		"authority of second domain": {router.Key{Authority: "news.other.test"}, "news", 0, nil},
		"service":                    {router.Key{Service: "p.News"}, "news", 0, nil},
		"service, other authority":   {router.Key{Service: "p.News", Authority: "localhost:8080"}, "news", 0, nil},
		"metadata beats service":     {router.Key{Metadata: "weather", Service: "p.News"}, "weather", 0, nil},
		"message beats service":      {router.Key{Message: "weather", Service: "p.News"}, "weather", 0, nil},
		"authority beats service": {router.Key{Authority: "weather.other.test", Service: "p.News"}, "weather", 0,
			nil},
		"all agree": {
			router.Key{Metadata: "weather", Message: "weather", Authority: "Weather.other.test"}, "weather", 0, nil,
		},
		"foreign authority is no key": {router.Key{Metadata: "weather", Authority: "news.example.com"}, "weather", 0,
			nil},

		"nothing": {router.Key{}, "ROUTING_KEY_MISSING", call.InvalidArgument, nil},
		"unknown service": {router.Key{Service: "p.Other"}, "ROUTING_KEY_MISSING", call.InvalidArgument,
			nil},
		"foreign service": {router.Key{Service: "p.Other", Foreign: true}, "METHOD_UNKNOWN",
			call.Unimplemented, nil},
		"foreign service of a fleet": {router.Key{Service: "p.News", Foreign: true}, "news", 0, nil},
		"foreign service, metadata":  {router.Key{Service: "p.Other", Metadata: "news", Foreign: true}, "news", 0, nil},
		"domain itself": {
			router.Key{Authority: "caps.example.com:8080"}, "ROUTING_KEY_MISSING", call.InvalidArgument, nil,
		},
		"two labels": {
			router.Key{Authority: "a.weather.caps.example.com"}, "ROUTING_KEY_MISSING", call.InvalidArgument, nil,
		},
		"no first label": {
			router.Key{Authority: ".caps.example.com"}, "ROUTING_KEY_MISSING", call.InvalidArgument, nil,
		},
		"IPv6": {router.Key{Authority: "[::1]:8080"}, "ROUTING_KEY_MISSING", call.InvalidArgument, nil},
		"metadata, message": {
			router.Key{Metadata: "weather", Message: "news"}, "ROUTING_KEY_CONFLICT", call.InvalidArgument,
			map[string]string{"metadata": "weather", "message": "news"},
		},
		"metadata, authority": {
			router.Key{Metadata: "weather", Authority: "news.other.test"}, "ROUTING_KEY_CONFLICT", call.InvalidArgument,
			map[string]string{"metadata": "weather", "authority": "news"},
		},
		"message, authority": {
			router.Key{Message: "weather", Authority: "news.other.test"}, "ROUTING_KEY_CONFLICT", call.InvalidArgument,
			map[string]string{"message": "weather", "authority": "news"},
		},
		"three ways": {
			router.Key{
				Metadata: "a", Message: "b", Authority: "c.other.test",
			}, "ROUTING_KEY_CONFLICT", call.InvalidArgument, map[string]string{"metadata": "a", "message": "b",
				"authority": "c"},
		},
		"unknown": {
			router.Key{Metadata: "nope"}, "CAPABILITY_UNKNOWN", call.NotFound, map[string]string{"capability": "nope"},
		},
		"unknown, service": {
			router.Key{Message: "nope", Service: "p.News"}, "CAPABILITY_UNKNOWN", call.NotFound,
			map[string]string{"capability": "nope"},
		},
		"unknown label": {
			router.Key{Authority: "nope.other.test"}, "CAPABILITY_UNKNOWN", call.NotFound,
			map[string]string{"capability": "nope"},
		},
		"ids are exact": {
			router.Key{Metadata: "Weather"}, "CAPABILITY_UNKNOWN", call.NotFound,
			map[string]string{"capability": "Weather"},
		},
		"long label": {
			router.Key{Authority: long + ".other.test"}, "CAPABILITY_UNKNOWN", call.NotFound,
			map[string]string{"capability": long[:63] + "…"},
		},
		"bytes that are no id": {
			router.Key{Message: "\xff\n"}, "CAPABILITY_UNKNOWN", call.NotFound,
			map[string]string{"capability": "\uFFFD\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, refusal := table.Resolve(test.key, all{})
			if refusal == nil {
				if f.Capability != test.want {
					t.Errorf("fleet %s, want %s", f.Capability, test.want)
				}
				return
			}
			if f != nil || refusal.Reason != test.want || refusal.Kind != test.kind {
				t.Fatalf("refused with %+v, want %s; f %+v", refusal, test.want, f)
			}
			if !maps.Equal(refusal.Metadata, test.metadata) {
				t.Errorf("metadata %v, want %v", refusal.Metadata, test.metadata)
			}
		})
	}
}

func TestResolveSaysHowToNameOne(t *testing.T) {
	t.Parallel()
	_, refusal := newTable(t, router.Config{Domains: []string{"caps.test"}}, nil).Resolve(router.Key{}, all{})
	for _, way := range []string{"x-capability-id", "capability_id", "<capability>.caps.test"} {
		if !strings.Contains(refusal.Message, way) {
			t.Errorf("%q does not mention %s", refusal.Message, way)
		}
	}
}

func TestResolveKeepsNoBuffer(t *testing.T) {
	t.Parallel()
	table := newTable(t, router.Config{Fleets: []router.FleetConfig{{Capability: "weather"}}}, nil)
	f, _ := table.Resolve(router.Key{Message: string([]byte("weather"))}, all{})
	if f != table.Fleet("weather") {
		t.Error("the fleet is not the table's own")
	}
}

func TestNewTableRefusesDoubles(t *testing.T) {
	t.Parallel()
	for name, fleets := range map[string][]router.FleetConfig{
		"capability": {{Capability: "a"}, {Capability: "a"}},
		"service":    {{Capability: "a", Services: []string{"s"}}, {Capability: "b", Services: []string{"s"}}},
		"backend":    {{Capability: "a", Backends: router.Addrs("b:1", "b:1")}},
	} {
		if _, err := router.NewTable(router.Config{Fleets: fleets}, nil); err == nil ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s given twice: error %v", name, err)
		}
	}
}
