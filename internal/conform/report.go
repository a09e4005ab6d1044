package conform

// Verdict is the verdict of a check.
type Verdict string

// The verdicts.
const (
	Pass Verdict = "pass"
	Fail Verdict = "fail"
	Skip Verdict = "skip" // undecided
	Note Verdict = "note" // passed, with a remark
)

// Result is the result of one rule in one dialect.
type Result struct {
	Verdict Verdict `json:"verdict"`
	Rule    string  `json:"rule"`
	Dialect string  `json:"dialect,omitempty"` // "" if the rule precedes the dialects
	Says    string  `json:"says"`
	Source  string  `json:"source"`        // the document and its section
	Why     string  `json:"why,omitempty"` // empty if it passed
}

// Report is the result of all rules.
type Report struct {
	Address string   `json:"address"`
	Results []Result `json:"results"`
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	Skipped int      `json:"skipped"`
	Noted   int      `json:"noted"`
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
	case Note:
		r.Noted++
	}
}
