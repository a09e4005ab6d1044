package main

import "fmt"

// goal is what capgate should reach in a scenario: at most so many times what a
// peer needs, or with no peer at most so much.
type goal struct {
	scenario string
	peer     string
	atMost   float64
}

func goals() []goal {
	return []goal{
		{"unary-saturated", "haproxy", 0.25},
		{"h2load-tls", "haproxy", 0.30},
		{"unary-saturated", "grpc-go", 0.08},
		{"unary-saturated", "envoy", 0.09},
		{"unary-paced", "haproxy", 0.80},
		{"unary-paced", "tcp", 1.25},
		{"chunks-bursts", "haproxy", 0.50},
		{"bursts", "haproxy", 0.60},
		{"chunks-paced", "tcp", 1.1},
		{"download", "haproxy", 0.45},
		{"download", "tcp", 1.25},
		{"upload", "haproxy", 0.45},
		{"upload", "tcp", 1.25},
		{"single", "tcp", 1.2},
		{"idle", "", 1.5},
	}
}

// judge says what came of a goal; ok is false when something for it is missing.
func (r *report) judge(g goal) (line string, ok bool) {
	for _, row := range r.rows {
		if row.scenario.name != g.scenario {
			continue
		}
		own, have := r.figure(row, "capgate")
		if !have {
			return "", false
		}
		against, got := row.scenario.figure, own
		if g.peer != "" {
			reference := r.reference(g.peer)
			other, have := r.figure(row, reference)
			if !have || other <= 0 {
				return "", false
			}
			against, got = "× "+r.title(reference), own/other
		}
		return fmt.Sprintf("| %s | %.2f %s | %.2f | %s |\n", row.scenario.title, g.atMost, against, got,
			goalReached(got, g.atMost)), true
	}
	return "", false
}

func goalReached(got, atMost float64) string {
	if got > atMost {
		return fmt.Sprintf("**missed by %.0f%%**", 100*(got/atMost-1))
	}
	return "reached"
}
