package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/capgate/capgate/bench/proc"
)

// costRows are the rows of README's table, each with the figures of one scenario or several.
var costRows = []struct{ scenarios, title string }{
	{"unary-saturated unary-tls", "unary call of 1 KiB, saturated, and over TLS: µs"},
	{"unary-paced", "unary call at 5,000/s: µs"},
	{"handshakes", "TLS handshake: µs"},
	{"single", "one call at a time, its p50: µs"},
	{"bursts", "chunk of 100 B, in bursts: µs"},
	{"download upload", "download, upload: s a GiB"},
	{"idle idle-conn idle-conn-tls", "idle stream, connection, TLS connection: KiB"},
	{"json-invoke-h1 json-invoke-h2", "JSON, HTTP/1.1 and HTTP/2: µs"},
	{"mcp-h1 mcp-h2", "`tools/call` of MCP, HTTP/1.1 and HTTP/2: µs"},
}

// costs returns the table for the README of the repository: the figures of the run, and the goals that were missed.
func (r *report) costs() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s, %s |", time.Now().UTC().Format(time.DateOnly), strings.ReplaceAll(proc.Model(), "(R)", ""))
	for _, p := range r.peers {
		if p.Name != "tcp-go" || r.reference("tcp") == "tcp-go" {
			fmt.Fprintf(&b, " %s |", p.Title)
		}
	}
	b.WriteString("\n" + strings.Repeat("|---", strings.Count(b.String(), "|")-1) + "|\n")
	for _, c := range costRows {
		fmt.Fprintf(&b, "| %s |", c.title)
		for _, p := range r.peers {
			if p.Name == "tcp-go" && r.reference("tcp") != "tcp-go" {
				continue
			}
			var figures []string
			for name := range strings.FieldsSeq(c.scenarios) {
				if row, ok := r.row(name); ok {
					figures = append(figures, r.text(row, p.Name))
				}
			}
			fmt.Fprintf(&b, " %s |", strings.ReplaceAll(strings.Join(figures, ", "), "–, –", "–"))
		}
		b.WriteString("\n")
	}
	reached, missed := 0, []string{}
	for _, g := range goals() {
		v, ok := r.judge(g)
		switch {
		case !ok:
		case v.got <= g.atMost:
			reached++
		default:
			missed = append(missed, fmt.Sprintf(" %s%s: %.2f %s, goal %.2f.", strings.ToUpper(v.title[:1]), v.title[1:],
				v.got, v.against, g.atMost))
		}
	}
	fmt.Fprintf(&b, "\nOf %d goals for everything on, %d were reached.", reached+len(missed), reached)
	if len(missed) > 0 {
		b.WriteString(" These were missed." + strings.Join(missed, ""))
	}
	return b.String() + "\n"
}
