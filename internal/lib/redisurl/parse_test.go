package redisurl_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/lib/redisurl"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]redisurl.Target{
		"embedded":          {},
		"redis://h":         {Kind: redisurl.Single, Addrs: []string{"h:6379"}},
		"redis://h:1/":      {Kind: redisurl.Single, Addrs: []string{"h:1"}},
		"redis://[::1]":     {Kind: redisurl.Single, Addrs: []string{"[::1]:6379"}},
		"redis://[::1]:7/3": {Kind: redisurl.Single, Addrs: []string{"[::1]:7"}, DB: 3},
		"redis://:p%40ss@h": {Kind: redisurl.Single, Addrs: []string{"h:6379"}, Password: "p@ss"},
		"rediss://u:p@h:1/2": {Kind: redisurl.Single, TLS: true, Addrs: []string{"h:1"}, DB: 2,
			Username: "u", Password: "p"},
		"redis://u:p@q@h":         {Kind: redisurl.Single, Addrs: []string{"h:6379"}, Username: "u", Password: "p@q"},
		"redis+cluster://a,b:2,c": {Kind: redisurl.Cluster, Addrs: []string{"a:6379", "b:2", "c:6379"}},
		"rediss+cluster://u:p@a/0": {Kind: redisurl.Cluster, TLS: true, Addrs: []string{"a:6379"}, Username: "u",
			Password: "p"},
		"redis+sentinel://a,b:2/m": {Kind: redisurl.Sentinel, Addrs: []string{"a:26379", "b:2"}, Master: "m"},
		"rediss+sentinel://u:p@a/m/4": {Kind: redisurl.Sentinel, TLS: true, Addrs: []string{"a:26379"}, Master: "m",
			DB: 4, Username: "u", Password: "p"},
		"redis+sentinel://a/m?db=1&sentinel_user=x&sentinel_password=y%26": {Kind: redisurl.Sentinel,
			Addrs: []string{"a:26379"}, Master: "m", DB: 1, SentinelUsername: "x", SentinelPassword: "y&"},
	} {
		got, err := redisurl.Parse(raw)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", raw, got, err, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"":                               "not an address of a Redis",
		"secret":                         "not an address of a Redis",
		"localhost:6379":                 "not an address of a Redis",
		"http://:secret@h":               "unknown scheme",
		"redis://":                       "lacks a host",
		"redis://:secret@":               "lacks a host",
		"redis://:sec%ret@h":             "write %25",
		"redis://:sec/secret@h":          "lacks a host (a / or @",
		"redis://h:0":                    "port",
		"redis://h:secret":               "port",
		"redis://a,b":                    "several hosts",
		"redis://h/x":                    "database",
		"redis://h/-1":                   "database",
		"redis://h?db=1":                 "only redis+sentinel",
		"redis://:secret@h?a=%zz":        "query",
		"redis://a b":                    "neither a name",
		"redis+cluster://a/1":            "only database 0",
		"redis+cluster://a,,b":           "lacks a host",
		"redis+sentinel://a":             "name of the master",
		"redis+sentinel://a/m?db=x":      "database",
		"redis+sentinel://a/m?secret=1":  "unknown parameter",
		"redis+sentinel://a/m?db=1&db=2": "twice",
	} {
		_, err := redisurl.Parse(raw)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", raw, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error repeats a secret: %v", raw, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("redis://u:p@h:1/2")
	f.Add("rediss+sentinel://u:p@a,[::1]:2/m/3?sentinel_user=x")
	f.Fuzz(func(t *testing.T, raw string) {
		target, err := redisurl.Parse(raw)
		if err == nil && target.Kind != redisurl.Embedded && len(target.Addrs) == 0 {
			t.Errorf("%q: no address and no error", raw)
		}
	})
}
