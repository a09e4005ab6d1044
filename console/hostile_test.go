package console_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/browsertest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// closed are the fields of answers whose values the gateway alone chooses.
var closed = map[string]bool{"state": true, "roles": true, "redis": true, "csrf_token": true, "next_page_token": true,
	"remember": true, "via": true, "insecure": true, "source": true,
	"max_validity": true, "valid_for": true, "time": true, "answer": true}

// shown holds some hostile strings as the page of an approval shows them.
var shown = map[string][]string{
	"script": {"<script>window.hacked=1"}, "javascript": {"javascript:window.hacked"},
	"bidi":  {"U+202E", "U+2066", "U+200B", "U+200D", "U+FEFF", "U+0000", "U+001B", "U+2028", "U+E000", "U+3164"},
	"marks": {"more marks"}, "long": {"Show all"}, "rtl": {"U+202B", "U+2067"},
}

func hostile(t *testing.T, b *browsertest.Browser) {
	t.Helper()
	text, err := os.ReadFile("testdata/hostile.json")
	check.Must(t, err)
	var table [][2]string
	check.Must(t, json.Unmarshal(text, &table))
	var origins []string
	var cases []map[string]any
	for _, row := range table {
		name, value := row[0], row[1]
		if value == "LONG" {
			value = strings.Repeat("W", 9000)
		}
		origin := startFake(t, func(field, was string) string { return poisoned(field, was, value) })
		origins = append(origins, origin)
		shows := shown[name]
		if shows == nil {
			shows = []string{}
		}
		cases = append(cases, map[string]any{"name": name, "origin": origin, "shows": shows})
	}
	var found []string
	b.Run(t, "hostile", map[string]any{"origins": origins, "cases": cases, "paths": paths(),
		"dialogs": dialogs}, &found)
	for _, f := range found {
		t.Error(f)
	}
}

// poisoned returns a hostile value in place of one of a field.
func poisoned(field, was, value string) string {
	switch {
	case closed[field] || strings.HasSuffix(field, "_time"):
		return was
	case field == "id": // ids differ
		return value + was
	case field == "arguments_json":
		text, _ := json.Marshal(map[string]any{value: value, "list": []string{value, value},
			"deep": map[string]any{value: []any{map[string]any{value: value}}}})
		return string(text)
	}
	return value
}
