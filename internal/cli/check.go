package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capgate/capgate/internal/app"
	"github.com/capgate/capgate/internal/lib/memlimit"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/settings"
)

const checkHelp = `FILE is a configuration or a manifest of a capability, which the command recognizes by its fields; a
directory with a manifest.yaml; or a directory of such directories and of files *.yaml. Without FILE it
is capgate.yaml, and - is standard input. Every problem prints as FILE:LINE: FIELD: problem.

With -o json or yaml, the result on standard output has the file, line and field of each problem.

The command opens no connections without --connect, which probes each backend of a configuration once: a
backend that is not ready, or serves something else than its fleet says, is a problem. It warns about
tenants in an embedded Redis, which loses them at a restart, about open listeners, and about fleets whose
tools are all blocked.

With --production, each configuration must also meet the requirements of docs/run/production.md: TLS, a Redis with a
password, operators who sign in, limits, an audit log and others. What is missing is a problem.`

// newCheckCommand returns the command capgate check. The result goes to standard output, problems to standard error.
func newCheckCommand(std stdio) *cobra.Command {
	c := &cobra.Command{Use: "check [FILE]...", Short: "check configurations or manifests", Long: checkHelp}
	file := c.Flags().String("config", defaultConfig, "a configuration `file`, as serve has it")
	connects := c.Flags().Bool("connect", false, "probe each backend of a configuration once")
	production := c.Flags().Bool("production", false, "also require what production needs")
	o := output{stdio: std}
	o.addFlags(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if len(args) > 0 && c.Flags().Changed("config") {
			return usageError("want FILE or --config, not both")
		}
		checked := checker{std: std, production: *production}
		if *connects {
			checked.connects = c.Context()
		}
		if len(args) == 0 {
			if err := missingConfig(*file, c.Flags().Changed("config")); err != nil {
				return err
			}
			data, err := settings.Files{}.Read(*file)
			checked.config(*file, data, err)
		}
		for _, name := range args {
			checked.file(name)
		}
		checked.manifests()
		problems := errors.Join(checked.problems...)
		if problems == nil || o.format != tableFormat {
			if err := o.data(checked.result(problems), func(w io.Writer) {
				fmt.Fprintf(w, "ok: %s\n", strings.Join(checked.ok, ", "))
			}); err != nil {
				return err
			}
		}
		if problems != nil {
			return exitError{exitRefused, plainError{problems}}
		}
		return nil
	}
	return exits(c, "0 no problems; 1 problems; 2 wrong command line.")
}

// checker checks configurations and manifests.
type checker struct {
	std      stdio
	ok       []string // summaries of valid files
	problems []error
	connects context.Context //nolint:containedctx // of the probes; nil: backends are not probed

	production bool // what production needs is required

	paths []string             // of manifests
	stdin []*manifest.Manifest // at most one
}

// checkResult is the result of capgate check as data.
type checkResult struct {
	OK       bool           `json:"ok"`
	Checked  []string       `json:"checked"` // summaries of valid files
	Problems []checkProblem `json:"problems"`
}

// checkProblem is a problem, with its place where that is known.
type checkProblem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Field   string `json:"field,omitempty"`
	Problem string `json:"problem"`
}

func (c *checker) result(problems error) checkResult {
	r := checkResult{OK: problems == nil, Checked: append([]string{}, c.ok...), Problems: []checkProblem{}}
	if problems == nil {
		return r
	}
	for _, problem := range settings.Problems(problems) {
		p := checkProblem{Problem: problem.Error()}
		var at strictyaml.Error
		if errors.As(problem, &at) {
			p = checkProblem{File: at.File, Line: at.Line, Field: at.Path, Problem: at.Text}
		}
		r.Problems = append(r.Problems, p)
	}
	return r
}

// file checks a configuration, or takes note of a manifest.
func (c *checker) file(name string) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		c.paths = append(c.paths, name)
		return
	}
	var data []byte
	var err error
	if name == "-" {
		name = "standard input"
		data, err = io.ReadAll(c.std.in)
	} else {
		data, err = settings.Files{}.Read(name)
	}
	switch {
	case err != nil:
		c.problems = append(c.problems, err)
	case !settings.IsManifest(data):
		c.config(name, data, nil)
	case name == "standard input":
		m, err := manifest.Parse(name, data)
		if err != nil {
			c.problems = append(c.problems, err)
			return
		}
		c.stdin = append(c.stdin, m)
	default:
		c.paths = append(c.paths, name)
	}
}

// config checks the text of a configuration, if it could be read.
func (c *checker) config(name string, data []byte, err error) {
	var s *settings.Settings
	var warnings []string
	if err == nil {
		s, warnings, err = settings.Check(name, data)
	}
	if err != nil {
		c.problems = append(c.problems, err)
		return
	}
	backends := 0
	for i := range s.Config.Fleets {
		backends += len(s.Config.Fleets[i].Backends)
	}
	c.ok = append(c.ok, count(len(s.Config.Fleets), "fleet")+", "+count(backends, "backend"))
	if n := len(s.Config.Toolsets); n > 0 {
		c.ok = append(c.ok, count(n, "toolset"))
	}
	if c.connects != nil {
		probed := app.Connect(c.connects, s)
		c.ok = append(c.ok, fmt.Sprintf("%d of %s ready", probed.Ready, count(probed.Backends, "backend")))
		for _, problem := range probed.Problems {
			c.problems = append(c.problems, fmt.Errorf("%s: %w", name, problem))
		}
		warnings = append(warnings, probed.Warnings...)
	}
	if c.production {
		missing, of := settings.Production(name, s.Config, memlimit.Bytes(os.DirFS("/"), 0))
		c.ok = append(c.ok, fmt.Sprintf("%d of %s of production met", of-len(missing), count(of, "requirement")))
		c.problems = append(c.problems, missing...)
	}
	for _, text := range warnings {
		fmt.Fprintf(c.std.err, "%s: warning: %s\n", name, text)
	}
}

// manifests checks the manifests together: their ids differ.
func (c *checker) manifests() {
	all, err := settings.ReadManifests(c.paths, settings.Files{})
	if err != nil {
		c.problems = append(c.problems, err)
	}
	if all = append(all, c.stdin...); len(all) > 0 {
		c.ok = append(c.ok, summaryOfManifests(all))
	}
}

// missingConfig returns an error if no configuration is named and the default one does not exist.
func missingConfig(file string, named bool) error {
	if _, err := os.Stat(file); named || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return usageError("there is no configuration %s here: capgate init writes one, and an argument FILE names another",
		file)
}

func summaryOfManifests(all []*manifest.Manifest) string {
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
	return text
}

func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
