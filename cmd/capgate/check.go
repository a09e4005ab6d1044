package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

const checkHelp = `FILE is a configuration, a manifest of a capability, a directory with a manifest.yaml, or a directory of
such directories and of files *.yaml. Without FILE it is capgate.yaml. Every problem prints as
FILE:LINE: FIELD: problem.

The command opens no connections. It warns about tenants in an embedded Redis, which loses them at a
restart, and about fleets whose tools are all blocked.`

// newCheckCommand is capgate check. The result goes to standard output, problems to standard error.
func newCheckCommand(std stdio) *cobra.Command {
	c := &cobra.Command{Use: "check [FILE]...", Short: "check a configuration or manifests", Long: checkHelp}
	file := c.Flags().String("config", defaultConfig, "a configuration `file`, as serve has it")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if len(args) > 0 && c.Flags().Changed("config") {
			return usageError("--config and manifests cannot be checked together")
		}
		var ok string
		switch {
		case len(args) == 1 && isConfig(args[0]):
			ok, err = checkConfig(args[0], std.err)
		case len(args) > 0:
			ok, err = checkManifests(args)
		default:
			ok, err = checkConfig(*file, std.err)
		}
		if err != nil {
			return exitError{exitRefused, plainError{err}}
		}
		fmt.Fprintf(std.out, "ok: %s\n", ok)
		return nil
	}
	return exits(c, "0 no problems; 1 problems; 2 wrong command line.")
}

// checkConfig summarizes a valid configuration, and warns about state that a restart would lose.
func checkConfig(file string, warnings io.Writer) (string, error) {
	files := fingerprints{}
	c, err := parseFile(file, overrides{}, files)
	if err != nil {
		return "", err
	}
	s, err := withFiles(c, files, nil)
	if err == nil {
		err = errors.Join(placed(c, []error{checkAudit(c.Audit.To)})...)
	}
	if err != nil {
		return "", inFile(file, err)
	}
	if c.Multi && c.Redis.URL == config.Default().Redis.URL {
		fmt.Fprintf(warnings, "%s: warning: %s\n", file, forgets(c))
	}
	for i := range c.Fleets {
		if text := s.allowsNothing(&c.Fleets[i]); text != "" {
			fmt.Fprintf(warnings, "%s: warning: %s\n", file, text)
		}
	}
	backends := 0
	for i := range c.Fleets {
		backends += len(c.Fleets[i].Backends)
	}
	return count(len(c.Fleets), "fleet") + ", " + count(backends, "backend"), nil
}

// isConfig reports whether a file is a configuration and not a manifest, by its fields. An unreadable file is
// neither.
func isConfig(file string) bool {
	if info, err := os.Stat(file); err != nil || info.IsDir() {
		return false
	}
	data, err := os.ReadFile(file) //nolint:gosec // the user's own file, named by the user
	var fields map[string]any
	if err != nil || yaml.Unmarshal(data, &fields) != nil {
		return false
	}
	for _, of := range []string{"id", "tools", "tool_source"} {
		if _, manifest := fields[of]; manifest {
			return false
		}
	}
	for _, of := range []string{"fleets", "listen", "admin", "redis", "tenants", "registration", "tls", "policies"} {
		if _, config := fields[of]; config {
			return true
		}
	}
	return false
}

// allowsNothing returns the reason why no tool of a fleet can be called, or "". Such a fleet has no rules and no
// approvals, and neither its policy nor its manifest allows a tool.
func (s *settings) allowsNothing(f *config.Fleet) string {
	m := s.manifestOf(f)
	if s.cfg.Policies.Enabled || f.Settings != nil || f.Policy != call.Block || m != nil && m.Dynamic {
		return ""
	}
	why := "it has no manifest"
	if m != nil {
		for i := range m.Tools {
			if m.Tools[i].Recommended != call.Block {
				return ""
			}
		}
		why = "no tool of " + s.manifestFile(f) + " has recommended_policy: allow or ask"
	} else if s.cfg.Registration.Manifests {
		return "" // its backends may bring one
	}
	return fmt.Sprintf("fleet %s: all tools are blocked: its policy is block, %s, and there are no rules; set "+
		"policy: allow or ask, or policies: {} for rules", f.Capability, why)
}

// forgets returns the state that a gateway with tenants loses at a restart, because its Redis is embedded.
func forgets(c *config.Config) string {
	if c.Identity.Stored {
		return "redis is embedded: new tenants and API keys are lost at a restart, and other replicas do not see them"
	}
	return "redis is embedded: the usage of tenants' limits, their rules and their approvals are lost at a restart, " +
		"and other replicas do not see them"
}

// inFile prefixes every problem of an error with its file, unless it has a position.
func inFile(file string, err error) error {
	var all []error
	for _, problem := range problemsOf(err) {
		var at strictyaml.Error
		if !errors.As(problem, &at) {
			problem = fmt.Errorf("%s: %w", file, problem)
		}
		all = append(all, problem)
	}
	return errors.Join(all...)
}

// checkAudit checks the folder of the audit log. The log itself is created when it is needed.
func checkAudit(to string) error {
	if to == "" || to == "stdout" {
		return nil
	}
	folder := filepath.Dir(to)
	switch is, err := os.Stat(folder); {
	case errors.Is(err, fs.ErrNotExist):
		return wrongFile(to, "audit.to: directory %s does not exist", folder)
	case err != nil:
		return wrongFile(to, "audit.to: directory %s cannot be accessed: %w", folder, err)
	case !is.IsDir():
		return wrongFile(to, "audit.to: %s is not a directory", folder)
	}
	return nil
}

// checkManifests summarizes valid manifests.
func checkManifests(paths []string) (string, error) {
	all, err := readManifests(paths, fingerprints{})
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

func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
