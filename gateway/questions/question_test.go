package questions_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/questions"
)

const form = `{"message":"who?","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}`

// TestRead: a question within its bounds is read with the members of its kind and no others, and its message names the
// tool first. Names that differ from a member in case, or fold to it, are other names.
func TestRead(t *testing.T) {
	t.Parallel()
	const attributed = `Message of the tool \"t\" of \"c\", which its server wrote; an answer goes to the server and ` +
		`approves nothing:\n\n`
	for params, want := range map[string]struct {
		method, params string
		kind           questions.Kinds
	}{
		form + `,"_meta":{"progressToken":1},"task":{},"x":1,"Message":"a","MODE":"url","me\u017f\u017fage":"b",` +
			`"reque\u017ftedSchema":{},"url":"https://a.example","Task":{}}`: {"elicitation/create",
			`{"message":"` + attributed + `who?","mode":"form","requestedSchema":{"type":"object","properties":` +
				`{"a":{"type":"string"}}}}`, questions.Forms},
		`{"mode":"url","message":"pay","url":"https://pay.example/1","elicitationId":"e","Url":"x:",` +
			`"requestedSchema":1}`: {"elicitation/create",
			`{"elicitationId":"e","message":"` + attributed + `pay","mode":"url","url":"https://pay.example/1"}`,
			questions.URLs},
		`{"messages":[],"maxTokens":12345678901234567890,"Tools":[],"toolChoic\u0045":{},` +
			`"includeContext":"allServers",` +
			`"metadata":{"m":1},"modelPreferences":{},"stopSequences":["s"],"systemPrompt":"p","temperature":0.10}`: {
			"sampling/createMessage", `{"maxTokens":12345678901234567890,"messages":[],"metadata":{"m":1},` +
				`"modelPreferences":{},"stopSequences":["s"],"systemPrompt":"p","temperature":0.10}`,
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
		`{"message":"m","requestedSchema":{"type":"array"}}`:                 "elicitation/create",
		strings.TrimSuffix(many, ",") + `}}}`:                                "elicitation/create",
		strings.TrimSuffix(many, ",") + `},"Properties":null}}`:              "elicitation/create",
		`{"message":"m","requestedSchema":{"Type":"object"}}`:                "elicitation/create",
		`{"message":"m","requestedSchema":{"type":"array","Type":"object"}}`: "elicitation/create",
		`{"message":"m","requestedSchema":{"type":"object","properties":1}}`: "elicitation/create",
		`{"message":"` + strings.Repeat("m", questions.MaxForm) + `"}`:       "elicitation/create",
		at("javascript:alert(1)"):                                            "elicitation/create",
		at("file:///etc/passwd"):                                             "elicitation/create",
		at("https://user:secret@a.example"):                                  "elicitation/create",
		at("https:///path"):                                                  "elicitation/create",
		at(`https://a.example/\n`):                                           "elicitation/create",
		at("https://a.example/" + strings.Repeat("x", 2048)):                 "elicitation/create",
		at("https://gate.example/approvals/a-1"):                             "elicitation/create",
		`{"messages":1}`:                                                     "sampling/createMessage",
		`{"messages":[],"tools":[]}`:                                         "sampling/createMessage",
		`{"messages":["` + strings.Repeat("m", questions.MaxSample) + `"]}`:  "sampling/createMessage",
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
