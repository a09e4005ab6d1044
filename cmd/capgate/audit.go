package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/telemetry"
)

// openAudit opens the configured audit log.
func (p *process) openAudit(cfg *config.Config, metrics *telemetry.Metrics) (err error) {
	a := cfg.Audit
	if a.To == "" {
		return nil
	}
	version, _, _ := buildInfo()
	c := audit.Config{Path: a.To, Required: a.Required, Queue: a.Queue,
		Replica: p.replica, Version: version, Log: p.log}
	if a.To == "stdout" {
		c.Path, c.Out = "", os.Stdout
	}
	if p.audit, err = audit.Open(c); err != nil {
		return err
	}
	metrics.WatchAudit(func() telemetry.Audit {
		s := p.audit.Stats()
		told := telemetry.Audit{Written: s.Written, Failing: s.Failing, Lost: map[string]uint64{}}
		for why, n := range s.Lost {
			told.Lost[audit.Lost(why).String()] = n
		}
		return told
	})
	return nil
}

const auditUsage = `Usage: capgate audit verify FILE...

Verifies the hash chain of audit logs, from the oldest file to the newest, and reports where it
breaks. The exit status is 0 if the chain is intact. Two changes cannot be detected: the removal of
the last records, and a log that was rewritten as a whole. To detect them, compare the printed hash
with a copy stored elsewhere.
`

func runAudit(_ context.Context, args []string, std stdio) int {
	fs := flag.NewFlagSet("audit", flag.ContinueOnError)
	words, status, ok := parseLine(fs, args, 1000, auditUsage, std)
	if !ok {
		return status
	}
	if len(words) < 2 || words[0] != "verify" {
		return wrongLine(fs, errors.New("want verify and at least one file"), std)
	}
	var before *audit.Head
	for _, name := range words[1:] {
		s, err := verifyFile(name, before)
		var broken *audit.Broken
		switch {
		case errors.As(err, &broken):
			fmt.Fprintf(std.out, "%s:%d: %s\n", name, broken.Line, broken.Why)
			fmt.Fprintf(std.out, "%s: intact before that: %s\n", name, summaryOf(&s))
			return 1
		case err != nil:
			fmt.Fprintf(std.err, "capgate audit: %v\n", err)
			return exitUsage
		}
		fmt.Fprintf(std.out, "%s: whole: %s\n", name, summaryOf(&s))
		before = &s.Head
	}
	return 0
}

func verifyFile(name string, before *audit.Head) (audit.Summary, error) {
	f, err := os.Open(name)
	if err != nil {
		return audit.Summary{}, err
	}
	defer f.Close()
	return audit.Verify(f, before)
}

func summaryOf(s *audit.Summary) string {
	if s.Records == 0 {
		return "no records"
	}
	text := fmt.Sprintf("%s, %d to %d, %s to %s, sha256 of the last %s", count(int(s.Records), "record"), s.First,
		s.Last, s.From, s.To, s.Head)
	if s.Lost > 0 {
		text += fmt.Sprintf("; they report %s lost", count(int(s.Lost), "other record"))
	}
	return text
}
