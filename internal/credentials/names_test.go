package credentials_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/credentials"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/testkit/check"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	const declares = "; the capability's manifest declares A_KEY, TOKEN"
	names := credentials.New([]string{"TOKEN", "A_KEY", "TOKEN"})
	for config, want := range map[string]string{
		"":                           "",
		" \r\n\t":                    "",
		"{}":                         "",
		` {"TOKEN": "hush"} `:        "",
		`{"A_KEY":"a","TOKEN":null}`: "",
		`{"TOKEN":{"TOKEN":1,"x":[1,{"y":-0.5e+9}]}}`:                 "",
		`{"TO\u004bEN":"hush"}`:                                       "",
		`{"A\u005fKEY":true,"TOKEN":"\ud83d\ude00 \"\\\/\b\f\n\r\t"}`: "",
		`{"hush":1}`:                           "has 1 names that are not declared" + declares,
		`{"hush":1,"hush":2,"TOKEN":1}`:        "has 2 names that are not declared" + declares,
		`{"":1}`:                               "has 1 names that are not declared" + declares,
		`{"token":1}`:                          "has 1 names that are not declared" + declares,
		`{"TOKEN ":1,"TOKENhush":1,"TOKE":1}`:  "has 3 names that are not declared" + declares,
		`{"TOKEN\u0000":1}`:                    "has 1 names that are not declared" + declares,
		`{"\ud83d\ude00":1,"\ud800\u0041":1}`:  "has 2 names that are not declared" + declares,
		`{"TOKEN":1,"TOKEN":1}`:                "has TOKEN twice",
		`{"A_KEY":1,"TOKEN":1,"\u0041_KEY":1}`: "has A_KEY twice",
		`["hush"]`:                             "is not a JSON object",
		`"hush"`:                               "is not a JSON object",
		`null`:                                 "is not a JSON object",
		`12`:                                   "is not a JSON object",
		`{} {}`:                                "is not JSON",
		`{"hush":1`:                            "is not JSON",
		`{"hush"`:                              "is not JSON",
		`{"TOKEN":1,}`:                         "is not JSON",
		`{"TOKEN" 1}`:                          "is not JSON",
		`{"TOKEN":01}`:                         "is not JSON",
		`{"TOKEN":"\x"}`:                       "is not JSON",
		`{"TOKEN":"\u+123"}`:                   "is not JSON",
		`{TOKEN:1}`:                            "is not JSON",
		`hush`:                                 "is not JSON",
		"{\"TOKEN\":\"a\nb\"}":                 "is not JSON",
		"{\"TOKEN\":\"\xff\"}":                 "is not valid UTF-8",
		"\ufeff{}":                             "is not JSON",
		`{"TOKEN":` + strings.Repeat("[", 99) + strings.Repeat("]", 99) + "}":   "",
		`{"TOKEN":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}": "is more than 100 levels deep",
		`{"TOKEN":` + strings.Repeat(`{"a":`, 1_000_000):                        "is more than 100 levels deep",
		strings.Repeat("[", 1_000_000):                                          "is more than 100 levels deep",
		`{"TOKEN":{"a":1,"a":2}}`: "has a name twice in one " +
			"object, at byte 16",
		`{"TOKEN":"\ud800"}`: "has a lone surrogate at byte 10",
		`{"TOKEN":1e999}`: "has a number at byte 9 that is " +
			"out of the range of a double",
	} {
		err := names.Check([]byte(config))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want && (want == "" || !strings.HasPrefix(got, want+",")) || strings.Contains(got, "hush") {
			t.Errorf("%.80q: %q, want %q", config, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	if err := (*credentials.Names)(nil).Check([]byte("anything")); err != nil {
		t.Error(err)
	}
	none := credentials.New(nil)
	if err := none.Check([]byte(`{}`)); err != nil {
		t.Error(err)
	}
	if err := none.Check([]byte(`{"":1}`)); err == nil || !strings.HasSuffix(err.Error(), "declares none") {
		t.Error(err)
	}
	var many []string
	all := map[string]int{}
	for i := range 1000 {
		many = append(many, fmt.Sprintf("KEY_%03d", i))
		all[many[i]] = i
	}
	names := credentials.New(many)
	config, err := json.Marshal(all)
	check.Must(t, err)
	if err := names.Check(config); err != nil {
		t.Error(err)
	}
	config = append(bytes.TrimSuffix(config, []byte("}")), `,"KEY_321":1}`...)
	if err := names.Check(config); err == nil || err.Error() != "has KEY_321 twice" {
		t.Error(err)
	}
	if err := names.Check([]byte(`{"KEY":1}`)); err == nil ||
		!strings.HasSuffix(err.Error(), "KEY_018, KEY_019 and 980 more") {
		t.Error(err)
	}
}

// FuzzCheck compares with encoding/json, and looks for secrets in errors.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"A":1,"B_C":[{"x":"\ud83d\ude00"}],"A":-1.5e3}`, `{"\u0041":{}}`,
		`[true,false,null]`, `{"secret":"s"}`, "{\"A\":\"\\ud800\\u0041\"}"} {
		f.Add([]byte(seed))
	}
	declared := []string{"A", "B_C", "\ufffd", "é"}
	names := credentials.New(declared)
	f.Fuzz(func(t *testing.T, config []byte) {
		err := names.Check(config)
		var text *strictjson.Error
		if errors.As(err, &text) && text.Ambiguous {
			return // which parsers interpret differently
		}
		if want := slowly(config, declared); (err == nil) != want {
			t.Errorf("%q: %v, want it to pass: %v", config, err, want)
		}
		if err != nil && len(err.Error()) > 120 {
			t.Errorf("%q: a long error: %v", config, err)
		}
	})
}

// slowly is a simple implementation of Check.
func slowly(config []byte, declared []string) bool {
	if !utf8.Valid(config) || len(bytes.Trim(config, " \t\r\n")) > 0 && !json.Valid(config) {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(config))
	d.UseNumber()
	seen := map[string]bool{}
	for depth, name := 0, false; ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return true
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > credentials.MaxDepth || depth == 1 && token != json.Delim('{') {
				return false
			}
			name = depth == 1
			continue
		case json.Delim('}'), json.Delim(']'):
			depth--
			name = depth == 1
			continue
		}
		if depth == 0 {
			return false
		}
		if text, _ := token.(string); name {
			if seen[text] || !slices.Contains(declared, text) {
				return false
			}
			seen[text] = true
		}
		name = depth == 1 && !name
	}
}

func BenchmarkCheck(b *testing.B) {
	names := credentials.New([]string{"WEATHER_API_KEY", "STORAGE_TOKEN", "REGION"})
	config := []byte(`{"WEATHER_API_KEY": "` + strings.Repeat("k", 64) + `", "STORAGE_TOKEN": "` +
		strings.Repeat("t", 1000) + `", "REGION": "eu"}`)
	b.SetBytes(int64(len(config)))
	b.ReportAllocs()
	for b.Loop() {
		check.Must(b, names.Check(config))
	}
}
