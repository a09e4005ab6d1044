package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// dir is the directory of the models.
const dir = "internal/testkit/models"

// check is one run of TLC.
type check struct {
	Says   string            `yaml:"says"`
	Model  string            `yaml:"model"`
	With   map[string]string `yaml:"with"`   // constants
	Checks string            `yaml:"checks"` // invariants; "" selects those of the model's cfg file
	Breaks string            `yaml:"breaks"` // the invariant that breaks; "" if all hold
}

func main() {
	jar := flag.String("jar", "", "path of the jar with TLC")
	run := flag.String("run", "", "run only the checks whose model or text matches this regular expression")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runAll(ctx, *jar, *run)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "models:", err)
		os.Exit(1)
	}
}

func runAll(ctx context.Context, jar, run string) error {
	chosen, err := regexp.Compile(run)
	if err != nil {
		return err
	}
	all, err := load(dir)
	if err != nil {
		return err
	}
	var failures []error
	ran := 0
	for i := range all {
		c := &all[i]
		if !chosen.MatchString(c.Model + ": " + c.Says) {
			continue
		}
		ran++
		began := time.Now()
		if err := c.run(ctx, jar); err != nil {
			failures = append(failures, fmt.Errorf("%s: %s: %w", c.Model, c.Says, err))
		}
		fmt.Printf("%-9s  %s (%s)\n", c.Model, c.Says, time.Since(began).Round(time.Second))
	}
	if ran == 0 {
		return errors.New("no check was selected")
	}
	return errors.Join(failures...)
}

func load(dir string) (all []check, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "checks.yaml"))
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	return all, decoder.Decode(&all)
}

// run runs TLC in a separate directory and judges its result.
func (c *check) run(ctx context.Context, jar string) error {
	base, err := os.ReadFile(filepath.Join(dir, c.Model+".cfg"))
	if err != nil {
		return err
	}
	cfg, err := c.configure(string(base))
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "models")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	path := filepath.Join(temp, "check.cfg")
	if err := os.WriteFile(path, []byte(cfg), 0o600); err != nil {
		return err
	}
	//nolint:gosec // the arguments are the Makefile's and the repository's
	tlc := exec.CommandContext(ctx, "java", "-XX:+UseParallelGC", "-Xmx2g", "-Djava.io.tmpdir="+temp, "-cp", jar,
		"tlc2.TLC", "-workers", "auto", "-metadir", temp, "-config", path, filepath.Join(dir, c.Model+".tla"))
	out, err := tlc.CombinedOutput()
	return c.judge(string(out), err)
}

// configure returns a cfg file with the constants and invariants of the check.
func (c *check) configure(cfg string) (string, error) {
	for name, value := range c.With {
		line := regexp.MustCompile(`(?m)^    ` + regexp.QuoteMeta(name) + ` = .*$`)
		if !line.MatchString(cfg) {
			return "", fmt.Errorf("%s.cfg has no constant %s", c.Model, name)
		}
		cfg = line.ReplaceAllLiteralString(cfg, "    "+name+" = "+value)
	}
	if c.Checks != "" {
		cfg = regexp.MustCompile(`(?m)^INVARIANTS .*$`).ReplaceAllLiteralString(cfg, "INVARIANTS "+c.Checks)
	}
	return cfg, nil
}

// The exit codes of TLC.
const (
	completed = 0
	violated  = 12 // of an invariant
)

// judge compares the result of TLC with the expected one.
func (c *check) judge(out string, err error) error {
	code := completed
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		return err
	}
	switch {
	case c.Breaks == "" && code == completed && strings.Contains(out, "No error has been found."):
		return nil
	case c.Breaks == "":
		return fmt.Errorf("a promise does not hold, or TLC failed:\n%s", out)
	case code == violated && strings.Contains(out, "Invariant "+c.Breaks+" is violated."):
		return nil
	}
	return fmt.Errorf("TLC found no states without %s:\n%s", c.Breaks, out)
}
