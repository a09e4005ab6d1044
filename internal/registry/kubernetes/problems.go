package kubernetes

import (
	"fmt"
	"slices"
	"time"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

// Bounds of problems, which depend on objects that others write.
const (
	maxProblems    = 10
	problemLength  = 300 // characters
	problemLines   = 20  // in the log at once
	problemsEvery  = time.Minute
	leftOutProblem = "kubernetes: endpoints left out"
)

// problems are the reasons for which endpoints are left out. The first ones are kept, and the number of all others.
type problems struct {
	first []string
	more  int
}

// add adds a problem.
func (p *problems) add(text string) {
	text = untrusted.Beginning(text, problemLength)
	switch {
	case slices.Contains(p.first, text):
	case len(p.first) < maxProblems:
		p.first = append(p.first, text)
	default:
		p.more++
	}
}

// lines returns the problems, and a line with the number of those that are not kept.
func (p *problems) lines() []string {
	if p.more == 0 {
		return p.first
	}
	return append(slices.Clip(p.first), fmt.Sprintf("and %d more problems", p.more))
}

// note logs the problems that are not shown yet, as far as the rate of lines permits. The caller holds d.publishing.
func (d *Discovery) note(next *problems) {
	known := d.shown.Load().problems.lines()
	for _, text := range next.lines() {
		if slices.Contains(known, text) {
			continue
		}
		if d.lines.Take(time.Now()) > 0 {
			return
		}
		d.o.Log.Warn(leftOutProblem, "reason", text)
	}
}
