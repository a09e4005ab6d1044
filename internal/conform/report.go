package conform

// Verdict is what came of a check.
type Verdict string

// The verdicts.
const (
	Pass Verdict = "pass"
	Fail Verdict = "fail"
	Skip Verdict = "skip" // it cannot be told
)

// Result is what came of one rule in one dialect.
type Result struct {
	Verdict Verdict `json:"verdict"`
	Rule    string  `json:"rule"`
	Dialect string  `json:"dialect,omitempty"` // "": the rule comes before any
	Says    string  `json:"says"`
	Source  string  `json:"source"`        // the document and its section
	Why     string  `json:"why,omitempty"` // unless it passed
}

// Report is what came of all.
type Report struct {
	Address string   `json:"address"`
	Results []Result `json:"results"`
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	Skipped int      `json:"skipped"`
}

func (r *Report) add(one Result) {
	r.Results = append(r.Results, one)
	switch one.Verdict {
	case Pass:
		r.Passed++
	case Fail:
		r.Failed++
	case Skip:
		r.Skipped++
	}
}
