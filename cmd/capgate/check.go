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
       capgate check MANIFEST...

Says whether a configuration file can be served, or whether manifests of
capabilities keep to their rules, and if not, every problem as
FILE:LINE: FIELD: what is wrong. It connects to nothing.

MANIFEST is a file, a directory with a manifest.yaml, or a directory of such
directories and of files *.yaml.

Exit status: 0, or 1 if something is wrong, 2 for a wrong command line.

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
	if err == nil && len(rest) > 0 && given(fs, "config") {
		err = errors.New("--config and manifests are two checks")
	}
	if err != nil {
		fmt.Fprintf(stderr, "capgate check: %v\nTry: capgate check -h\n", err)
		return 2
	}
	var ok string
	if len(rest) > 0 {
		ok, err = checkManifests(rest)
	} else {
		ok, err = checkConfig(*file)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	fmt.Fprintf(stdout, "ok: %s\n", ok)
	return 0
}

// checkConfig says how much is in a configuration that can be served.
func checkConfig(file string) (string, error) {
	files := prints{}
	c, err := parseFile(file, overrides{}, files)
	if err != nil {
		return "", err
	}
	if _, err := withFiles(c, files, nil); err != nil {
		return "", errors.New(file + ": " + strings.ReplaceAll(err.Error(), "\n", "\n"+file+": "))
	}
	backends := 0
	for i := range c.Fleets {
		backends += len(c.Fleets[i].Backends)
	}
	return count(len(c.Fleets), "fleet") + ", " + count(backends, "backend"), nil
}

// checkManifests says how much is in manifests that keep to their rules.
func checkManifests(paths []string) (string, error) {
	all, err := readManifests(paths, prints{})
	if err != nil {
		return "", err
	}
	tools, dynamic := 0, 0
	for _, m := range all {
		tools += len(m.Tools)
		if m.Dynamic {
			dynamic++
		}
	}
	text := count(len(all), "manifest") + ", " + count(tools, "tool")
	if dynamic > 0 {
		text += fmt.Sprintf(", %d with dynamic tools", dynamic)
	}
	return text, nil
}

// given says whether a flag is on the command line.
func given(fs *flag.FlagSet, name string) (found bool) {
	fs.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
