package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

const checkUsage = `Usage: capgate check [--config FILE]

Says whether a configuration file can be served, and if not, every problem as
FILE:LINE: FIELD: what is wrong. It connects to nothing.

Exit status: 0, or 1 if the file cannot be served, 2 for a wrong command line.

Flags:
`

// runCheck is capgate check. The verdict goes to stdout, problems to stderr.
func runCheck(_ context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("check", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are printed below, once
	file := fs.String("config", "capgate.yaml", "the configuration `file`")
	rest, err := parseFlags(fs, args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, checkUsage)
		fs.SetOutput(stdout)
		fs.PrintDefaults()
		return 0
	}
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("unexpected argument %q", rest[0])
	}
	if err != nil {
		fmt.Fprintf(stderr, "capgate check: %v\nTry: capgate check -h\n", err)
		return 2
	}
	files := prints{}
	c, err := parseFile(*file, overrides{}, files)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	if _, err := withFiles(c, files, nil); err != nil {
		for problem := range strings.Lines(err.Error()) {
			fmt.Fprintf(stderr, "%s: %s\n", *file, strings.TrimSuffix(problem, "\n"))
		}
		return 1
	}
	backends := 0
	for i := range c.Fleets {
		backends += len(c.Fleets[i].Backends) + len(c.Fleets[i].Names)
	}
	fmt.Fprintf(stdout, "ok: %s, %s\n", count(len(c.Fleets), "fleet"), count(backends, "backend"))
	return 0
}

func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
