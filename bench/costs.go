package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/capgate/capgate/bench/proc"
)

// costRows lists the rows of README's table, each with one or more scenarios.
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

// costs returns the table for the README of the repository: the figures of the run, and how many goals were reached.
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
	reached, judged := 0, 0
	for _, g := range goals() {
		if v, ok := r.judge(g); ok {
			judged++
			if v.got <= g.atMost {
				reached++
			}
		}
	}
	fmt.Fprintf(&b, "\nEverything on reaches %d of its %d goals;"+
		" [the last run](bench/README.md#the-last-run) has them all.",
		reached, judged)
	return b.String() + "\n"
}
