package questions_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/questions"
)

// TestCheckAnswer: only results of the question's method are answers, and each reader takes them for the same one.
func TestCheckAnswer(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("a", n) }
	for result, want := range map[string]questions.Kinds{
		`{"action":"accept","content":{}}`:       questions.Elicitation,
		`{"action":"decline"}`:                   questions.Elicitation,
		`{"action":"cancel"}`:                    questions.Elicitation,
		`{"role":"assistant"}`:                   questions.Sampling,
		`{"roots":[]}`:                           questions.Roots,
		`{"action":"approve"}`:                   0,
		`{"Action":"accept"}`:                    0, // encoding/json takes it for an action, and other readers do not
		`{"ROLE":"assistant"}`:                   0,
		`{"Roots":[]}`:                           0,
		`{"role":1}`:                             0,
		`{"roots":{}}`:                           0,
		`{"roots":null}`:                         0,
		`{"action":"accept","action":"decline"}`: 0,
		`{"action":"accept","Action":"x"}`:       questions.Elicitation,
		`{"action":"accept"`:                     0,
		`{}`:                                     0,
		`[]`:                                     0,
		`null`:                                   0,
		`"accept"`:                               0,
		`{"role":"` + long(questions.MaxAnswer) + `"}`:                    0,
		`{"roots":["` + long(questions.MaxForm) + `"]}`:                   0,
		`{"role":"a","content":[` + strings.Repeat("0,", 16<<10) + `0]}`:  0,
		`{"role":"a","content":"` + long(questions.MaxAnswer-64) + `"}`:   questions.Sampling,
		`{"role":"a","content":[` + strings.Repeat("0,", 15<<10) + `0 ]}`: questions.Sampling,
	} {
		for _, kind := range []questions.Kinds{questions.Forms, questions.URLs, questions.Sampling, questions.Roots} {
			if err := kind.CheckAnswer(json.RawMessage(result)); (err == nil) != (want&kind != 0) {
				t.Errorf("%.80s for kind %d: %v", result, kind, err)
			}
		}
	}
}

// TestCheckAnswers: the answers of a repeated call are those to the questions of the last result. All together have the
// bound of one, and an invalid one is an error.
func TestCheckAnswers(t *testing.T) {
	t.Parallel()
	asked := questions.Asked{"f": questions.Forms, "s": questions.Sampling, "r": questions.Roots}
	const invalid = "invalid"
	half := `{"role":"` + strings.Repeat("a", questions.MaxAnswer/2) + `"}`
	for responses, want := range map[string]string{
		``:   ``,
		`{}`: ``,
		`{"f":{"action":"accept"},"s":{"role":"a"},"r":{"roots":[]}}`: `{"f":{"action":"accept"},"r":{"roots":[]},` +
			`"s":{"role":"a"}}`,
		`{"f":{"action":"decline","content":{"n":1.50}}}`:       `{"f":{"action":"decline","content":{"n":1.50}}}`,
		`{"other":{"action":"accept"},"f":{"action":"cancel"}}`: `{"f":{"action":"cancel"}}`,
		`{"other":{"action":"accept"}}`:                         ``,
		`{"f":{"role":"a"}}`:                                    invalid,
		`{"f":{"action":"accept"},"r":{"roots":1}}`:             invalid,
		`{"f":null}`: invalid,
		`[]`:         invalid,
		`{"f":{"action":"accept"},"f":{"action":"decline"}}`: invalid,
		`{"s":` + half + `,"other":` + half + `}`:            invalid,
	} {
		got, err := asked.CheckAnswers(json.RawMessage(responses))
		if (err != nil) != (want == invalid) || err == nil && string(got) != want {
			t.Errorf("%.80s: %.200s, %v", responses, got, err)
		}
	}
	const form, some = `{"f":{"action":"accept"}}`, questions.Forms | questions.Roots
	if got, err := questions.Asked(nil).CheckAnswers(json.RawMessage(form)); got != nil || err != nil {
		t.Errorf("without questions: %s, %v", got, err)
	}
	many := `{"f":{"action":"accept"}`
	for i := range questions.MaxMany {
		many += `,"` + strings.Repeat("x", i+1) + `":{"roots":[]}`
	}
	for responses, valid := range map[string]bool{
		form:                         true,
		`{"r":{"roots":[]}}`:         true,
		`{"s":{"role":"assistant"}}`: false,
		`{"s":{}}`:                   false,
		many + `}`:                   false,
		`{"` + strings.Repeat("x", questions.MaxKey+1) + `":{"roots":[]}}`: false,
	} {
		if got, err := some.CheckAnswers(json.RawMessage(responses)); (err == nil) != valid || valid &&
			string(got) != responses {
			t.Errorf("of any question, %.80s: %.80s, %v", responses, got, err)
		}
	}
}
