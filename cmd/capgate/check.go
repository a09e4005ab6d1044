package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/capgate/capgate/internal/config"
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
	c, err := loadConfig(*file)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	if problems := checkFiles(c); len(problems) > 0 {
		for _, err := range problems {
			fmt.Fprintf(stderr, "%s: %v\n", *file, err)
		}
		return 1
	}
	backends := 0
	for i := range c.Fleets {
		backends += len(c.Fleets[i].Backends)
	}
	fmt.Fprintf(stdout, "ok: %s, %s\n", count(len(c.Fleets), "fleet"), count(backends, "backend"))
	return 0
}

// loadConfig reads and parses a configuration file. The error has every problem,
// one a line, each beginning with the file's name.
func loadConfig(file string) (*config.Config, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, fmt.Errorf("%s: cannot be read: %w", file, err)
	}
	return config.Parse(file, data)
}

// checkFiles loads the files that a configuration names and says what is wrong.
func checkFiles(c *config.Config) []error {
	var problems []error
	if _, err := serverTLS(c.TLS); err != nil {
		problems = append(problems, err)
	}
	for i := range c.Fleets {
		if _, err := backendTLS(&c.Fleets[i]); err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}

func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
