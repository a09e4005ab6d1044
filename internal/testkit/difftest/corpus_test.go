package difftest

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"
)

// known is an attempt with a known outcome.
type known struct {
	name    string
	only    string           // dialect of its fleets; default all but legacy
	change  func(a *attempt) // changes a call of the tool "run"
	refused bool             // it must be rejected; otherwise it must run
}

// parts replaces the message.
func parts(all ...[]byte) func(*attempt) {
	return func(a *attempt) { a.parts = all }
}

// raw replaces the message by bytes in hex.
func raw(digits string) func(*attempt) {
	return func(a *attempt) {
		msg, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		if err != nil {
			panic(err)
		}
		a.parts = [][]byte{msg}
	}
}

func header(name, value string) func(*attempt) {
	return func(a *attempt) { a.header = append(a.header, field{name, value}) }
}

// byPath changes the path of the call.
func byPath(change func(string) string) func(*attempt) {
	return func(a *attempt) { a.path = change(a.path) }
}

func compressed(p pack) func(*attempt) { return func(a *attempt) { a.pack = p } }

func arguments16(s string) func(*attempt) {
	return func(a *attempt) { a.parts = [][]byte{text(1, "free"), text(2, string(encodings[1](s)))} }
}

func withArguments(tool, json string) func(*attempt) {
	return parts(text(1, tool), text(2, json))
}

const naming = `{"attachments":[{"capability_artifact_id":"theirs"}]}`

// corpus returns calls that were once ambiguous, and related calls that must run.
var corpus = slices.Concat([]known{
	{name: "plain", change: func(*attempt) {}},
	{name: "plain, legacy", only: legacy, change: parts(text(1, "run"), entry("session_id", "other"))},
	{name: "unknown fields of every type",
		change: parts(text(1, "free"), text(99, "new"), []byte{0x78, 1}, []byte{0x7d, 1, 2, 3, 4},
			[]byte{0x79, 1, 2, 3, 4, 5, 6, 7, 8})},
	{name: "fields in another order", change: parts(text(4, "other"), text(2, `{}`), text(1, "run"))},
	{name: "our own artifact", change: withArguments("run", `{"attachments":[{"capability_artifact_id":"ours"}]}`)},
	{name: "the session of the reserved backend", change: parts(text(1, "free"), text(4, "mine"))},
	{name: "the session of the reserved backend, legacy", only: legacy,
		change: parts(text(1, "free"), entry("session_id", "mine"))},
	{name: "compressed", change: compressed(packed)},
	{name: "content type with +proto", change: func(a *attempt) { a.header[0].value = "application/grpc+proto" }},

	{name: "a blocked tool", refused: true, change: parts(text(1, "blocked"))},
	{name: "a name behind a varint", refused: true,
		change: func(a *attempt) { a.parts = [][]byte{text(1, "free"), hidden(1, "blocked")} }},
	{name: "a session behind a varint", refused: true,
		change: func(a *attempt) { a.parts = [][]byte{text(1, "free"), hidden(4, "mine")} }},
	{name: "a name as a varint", refused: true, change: raw("0a 04 66726565 08 03")},
	{name: "a tag with a byte more", refused: true, change: raw("0a 04 66726565 8a 00 07 626c6f636b6564")},
	{name: "a name that a tag with a byte more replaces", refused: true,
		change: raw("0a 07 626c6f636b6564 8a 00 04 66726565")},
	{name: "a length with a byte more", refused: true, change: raw("0a 84 00 66726565")},
	{name: "a group", refused: true, change: raw("0a 04 66726565 0b 0a 07 626c6f636b6564 0c")},
	{name: "an unknown group", refused: true, change: raw("0a 04 66726565 7b 0a 07 626c6f636b6564 7c")},
	{name: "field 0", refused: true, change: raw("0a 04 66726565 02 01 78")},
	{name: "a number above 2^29-1", refused: true,
		change: raw("0a 04 66726565 8a 80 80 80 80 80 80 01 07 626c6f636b6564")},
	{name: "a tag of more than 32 bits", refused: true, change: raw("0a 04 66726565 8a 80 80 80 10 07 626c6f636b6564")},
	{name: "a tool twice", refused: true, change: parts(text(1, "free"), text(1, "blocked"))},
	{name: "arguments twice", refused: true, change: parts(text(1, "free"), text(2, "{}"), text(2, naming))},
	{name: "a session twice", refused: true, change: parts(text(1, "free"), text(4, "other"), text(4, "mine"))},
	{name: "trailing bytes", refused: true, change: parts(text(1, "free"), []byte{0x0a})},
	{name: "invalid UTF-8", refused: true, change: parts(text(1, "free\xff"))},
	{name: "an entry with an unknown field", only: legacy, refused: true,
		change: parts(text(1, "free"), text(3,
			string(slices.Concat(text(1, "session_id"), text(2, "mine"), text(3, "new")))))},
	{name: "an entry with two values", only: legacy, refused: true,
		change: parts(text(1, "free"), text(3,
			string(slices.Concat(text(1, "session_id"), text(2, "other"), text(2, "mine")))))},
	{name: "an entry twice", only: legacy, refused: true,
		change: parts(text(1, "free"), entry("session_id", "other"), entry("session_id", "mine"))},
}, corpusOfRequests(), corpusOfPaths(), corpusOfDownloads())

// corpusOfRequests varies compression, headers and JSON rather than the message's form.
func corpusOfRequests() []known {
	return []known{
		{name: "two gzip members", refused: true, change: compressed(twice)},
		{name: "another message in a second gzip member", refused: true, change: compressed(overlaid)},
		{name: "an empty gzip member before", refused: true, change: compressed(emptyFirst)},
		{name: "bytes behind the gzip member", refused: true, change: compressed(trailed)},

		{name: "another content type", refused: true,
			change: func(a *attempt) { a.header[0].value = "application/grpc+json" }},
		{name: "the content type twice", refused: true, change: header("content-type", "application/grpc+json")},
		{name: "the encoding twice", refused: true, change: func(a *attempt) {
			a.header = append(a.header, field{"grpc-encoding", "identity"}, field{"grpc-encoding", "gzip"})
		}},
		{name: "te twice", refused: true, change: header("te", "trailers")},
		{name: "the timeout twice", refused: true, change: func(a *attempt) {
			a.header = append(a.header, field{"grpc-timeout", "5S"}, field{"grpc-timeout", "9S"})
		}},
		{name: "a timeout of nothing", refused: true, change: header("grpc-timeout", "0S")},

		{name: "UTF-16 that names an artifact", refused: true, change: arguments16(naming)},
		{name: "another tenant's artifact", refused: true, change: withArguments("free", naming)},
		{name: "another tenant's artifact, legacy", only: legacy, refused: true, change: withArguments("free", naming)},
		{name: "another tenant's artifact, twice named", refused: true,
			change: withArguments("free",
				`{"attachments":[{"capability_artifact_id":"ours","capability_artifact_id":"theirs"}]}`)},
		{name: "a command twice", only: live, refused: true,
			change: withArguments("run", `{"command":"ls","command":"rm"}`)},
		{name: "a command in capitals", only: live, refused: true,
			change: withArguments("run", `{"command":"ls","Command":"rm"}`)},
		{name: "arguments behind a byte order mark", only: live, refused: true,
			change: withArguments("run", "\ufeff{\"command\":\"rm\"}")},
		{name: "a configuration in UTF-16", only: live, refused: true,
			change: func(a *attempt) {
				a.parts = [][]byte{text(1, "free"), text(3, string(encodings[3](`{"secret":"x"}`)))}
			}},
		{name: "a legacy call of a live fleet that names an artifact", only: live, refused: true,
			change: func(a *attempt) {
				a.path, a.parts = invokePaths[legacy], [][]byte{text(1, "free"), text(2, naming)}
			}},
	}
}

// spellings returns paths that some servers treat as path.
func spellings(path string) map[string]string {
	slash := strings.LastIndex(path, "/")
	service, method := path[:slash], path[slash+1:]
	return map[string]string{
		"with a query": path + "?", "with a query that says something": path +
			"?x=1", "with a letter escaped": service + "/" + percent(method[0]) + method[1:],
		"with a slash escaped": service + "%2f" + method, "with two slashes": service + "//" +
			method, "with a semicolon": path + ";",
		"with another case": service + "/" + strings.ToLower(method), "with a dot segment": service + "/./" +
			method, "with a step back": service + "/x/../" + method,
		"with a slash behind": path + "/", "with a fragment": path + "#", "with a step back before": "/x/.." +
			path, "of no known method": service + "/Unknown",
	}
}

func corpusOfPaths() (all []known) {
	for how := range spellings(invokePaths[live]) {
		all = append(all, known{name: "a path " + how, refused: true, change: func(a *attempt) {
			a.path, a.parts = spellings(a.path)[how], [][]byte{text(1, "blocked")}
		}})
	}
	return all
}

func corpusOfDownloads() (all []known) {
	download := func(name, id string, refused bool, change func(*attempt)) {
		all = append(all, known{name: name, refused: refused, change: func(a *attempt) {
			a.path, a.parts = downloadPaths[dialectOf(a.fleet)], [][]byte{text(1, id)}
			change(a)
		}})
	}
	download("a download", "ours", false, func(*attempt) {})
	download("another tenant's download", "theirs", true, func(*attempt) {})
	for how := range spellings(invokePaths[live]) {
		download("a download by a path "+how, "theirs", true, byPath(func(p string) string {
			return spellings(p)[how]
		}))
	}
	download("a download of two", "ours", true, func(a *attempt) { a.parts = append(a.parts, text(1, "theirs")) })
	return all
}

// TestCorpus: calls that were once ambiguous are rejected, or read in the same way by every backend.
func TestCorpus(t *testing.T) {
	w := newDeployment(t)
	var all []*attempt
	var of []known
	for _, b := range w.backends {
		for _, d := range []string{live, doc, legacy} {
			for _, k := range corpus {
				if k.only == "" && d == legacy || k.only != "" && k.only != d {
					continue
				}
				a := &attempt{fleet: b.name + "-" + d, path: invokePaths[d], header: plainHeader(), named: true,
					parts: [][]byte{text(1, "run")}}
				k.change(a)
				all, of = append(all, a), append(of, k)
			}
		}
	}
	failed := map[string]bool{}
	for i, o := range w.attempts(t, all) {
		k, a := of[i], all[i]
		if failed[k.name] {
			continue // once is enough
		}
		if err := verify(a, &o); err != nil {
			t.Errorf("%s: %v\n%v", k.name, err, a)
		} else if k.refused && (len(o.runs) > 0 || o.status == "0") {
			t.Errorf("%s: ran, status %q: %v\n%v", k.name, o.status, o.runs, a)
		} else if !k.refused && (len(o.runs) != 1 || o.status != "0") {
			t.Errorf("%s: status %q, %d runs\n%v", k.name, o.status, len(o.runs), a)
		} else {
			continue
		}
		failed[k.name] = true
	}
	w.late(t)
}
