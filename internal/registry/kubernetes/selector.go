package kubernetes

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Selector chooses objects by their labels, as kubectl -l does. The zero value chooses all.
type Selector []requirement

// requirement is one condition.
type requirement struct {
	label  string
	values []string // one of them; nil: any value
	not    bool     // the opposite, which also holds without the label
}

var (
	labelName = regexp.MustCompile(`^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?` +
		`[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`)
	setTerm    = regexp.MustCompile(`^(\S+)\s+(in|notin)\s*\((.*)\)$`)
)

// ParseSelector parses a label selector: a, !a, a=b, a==b, a!=b, a in (b,c) and a notin (b,c), with commas between.
func ParseSelector(text string) (Selector, error) {
	var all Selector
	for _, term := range splitTerms(text) {
		one, ok := parseTerm(strings.TrimSpace(term))
		if !ok || !labelName.MatchString(one.label) ||
			slices.ContainsFunc(one.values, func(v string) bool { return !labelValue.MatchString(v) }) {
			return nil, fmt.Errorf("%.64q is not a condition on labels; write app=weather, app!=weather, app, !app, "+
				"app in (weather,words) or app notin (weather,words), with commas between", term)
		}
		all = append(all, one)
	}
	return all, nil
}

// splitTerms splits a text at the commas outside of parentheses.
func splitTerms(text string) []string {
	depth := 0
	return strings.FieldsFunc(text, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		return r == ',' && depth == 0
	})
}

func parseTerm(term string) (one requirement, ok bool) {
	if m := setTerm.FindStringSubmatch(term); m != nil {
		one = requirement{label: m[1], not: m[2] == "notin"}
		for v := range strings.SplitSeq(m[3], ",") {
			one.values = append(one.values, strings.TrimSpace(v))
		}
		return one, true
	}
	label, value, equal := strings.Cut(term, "=")
	if !equal {
		name, not := strings.CutPrefix(term, "!")
		return requirement{label: strings.TrimSpace(name), not: not}, true
	}
	label, not := strings.CutSuffix(label, "!")
	value = strings.TrimSpace(strings.TrimPrefix(value, "="))
	return requirement{label: strings.TrimSpace(label), values: []string{value}, not: not}, true
}

// Matches reports whether labels meet all conditions.
func (s Selector) Matches(labels map[string]string) bool {
	for i := range s {
		value, has := labels[s[i].label]
		if met := has && (s[i].values == nil || slices.Contains(s[i].values, value)); met == s[i].not {
			return false
		}
	}
	return true
}
