package questions_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/questions"
)

const form = `{"message":"who?","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}`

// TestRead: a question within its bounds is read with all its members but those of a connection, and its message names
// the tool first.
func TestRead(t *testing.T) {
	t.Parallel()
	const attributed = `Message of the tool \"t\" of \"c\", which its server wrote; an answer goes to the server and ` +
		`approves nothing:\n\n`
	for params, want := range map[string]struct {
		method, params string
		kind           questions.Kinds
	}{
		form + `,"_meta":{"progressToken":1},"task":{},"x":12345678901234567890}`: {"elicitation/create",
			`{"message":"` + attributed + `who?","mode":"form","requestedSchema":{"type":"object","properties":` +
				`{"a":{"type":"string"}}},"x":12345678901234567890}`, questions.Forms},
		`{"mode":"url","message":"pay","url":"https://pay.example/1","elicitationId":"e"}`: {"elicitation/create",
			`{"elicitationId":"e","message":"` + attributed + `pay","mode":"url","url":"https://pay.example/1"}`,
			questions.URLs},
		`{"messages":[],"maxTokens":1}`: {"sampling/createMessage", `{"maxTokens":1,"messages":[]}`,
			questions.Sampling},
		`{"x":1}`: {"roots/list", `{}`, questions.Roots},
		``:        {"roots/list", `{}`, questions.Roots},
	} {
		q, err := questions.Read(want.method, json.RawMessage(params), questions.Source{Capability: "c", Tool: "t"})
		if err != nil || string(q.Params) != want.params || q.Kind != want.kind || q.Method != want.method {
			t.Errorf("%s: %+v, %v", params, q, err)
		}
	}
}

// TestReadRejects: questions beyond their bounds, with URLs that a browser must not open, or of other methods have an
// error for the server.
func TestReadRejects(t *testing.T) {
	t.Parallel()
	many := `{"message":"m","requestedSchema":{"type":"object","properties":{`
	for i := range 65 {
		many += `"` + strings.Repeat("x", i+1) + `":{},`
	}
	own := questions.NewOwn([]string{"gate.example"}, nil)
	from := questions.Source{Own: func(u *url.URL) bool { return own.Has(u, "") }}
	at := func(u string) string { return `{"mode":"url","message":"m","url":"` + u + `"}` }
	for params, method := range map[string]string{
		`[]`:                            "elicitation/create",
		`{"requestedSchema":{}}`:        "elicitation/create",
		`{"message":1}`:                 "elicitation/create",
		`{"message":"m"}`:               "elicitation/create",
		`{"message":"m","mode":"page"}`: "elicitation/create",
		`{"message":"m","mode":1}`:      "elicitation/create",
		`{"message":"m","requestedSchema":{"type":"array"}}`:                "elicitation/create",
		strings.TrimSuffix(many, ",") + `}}}`:                               "elicitation/create",
		`{"message":"` + strings.Repeat("m", questions.MaxForm) + `"}`:      "elicitation/create",
		at("javascript:alert(1)"):                                           "elicitation/create",
		at("file:///etc/passwd"):                                            "elicitation/create",
		at("https://user:secret@a.example"):                                 "elicitation/create",
		at("https:///path"):                                                 "elicitation/create",
		at(`https://a.example/\n`):                                          "elicitation/create",
		at("https://a.example/" + strings.Repeat("x", 2048)):                "elicitation/create",
		at("https://gate.example/approvals/a-1"):                            "elicitation/create",
		`{"messages":1}`:                                                    "sampling/createMessage",
		`{"messages":[],"tools":[]}`:                                        "sampling/createMessage",
		`{"messages":["` + strings.Repeat("m", questions.MaxSample) + `"]}`: "sampling/createMessage",
		`{}`: "tools/call",
	} {
		if q, err := questions.Read(method, json.RawMessage(params), from); err == nil {
			t.Errorf("%.80s: %+v", params, q)
		}
	}
}

// TestCalls: a call is found by its id until it is removed, and no other text names it.
func TestCalls(t *testing.T) {
	t.Parallel()
	all, call := questions.New(), &questions.Call{Kinds: questions.Roots}
	id, remove := all.Add(call)
	var none *questions.Calls
	if all.Of(id) != call || all.Of("") != nil || all.Of(id+"x") != nil || none.Of(id) != nil {
		t.Errorf("found %v", all.Of(id))
	}
	remove()
	if all.Of(id) != nil {
		t.Error("a removed call is found")
	}
}
