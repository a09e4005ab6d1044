package main

import (
	"bytes"
	"context"
	"encoding/json"
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
)

// least is the share of detectable mutants that the tests must detect.
const least = 0.95

func main() {
	run := flag.String("run", "", "run only the mutants whose package or intent matches this regular expression")
	limit := flag.Duration("timeout", 10*time.Minute, "time for the tests of a mutant; one that hangs is noticed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := check(ctx, *run, *limit)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func check(ctx context.Context, run string, limit time.Duration) error {
	chosen, err := regexp.Compile(run)
	if err != nil {
		return err
	}
	all, err := load(".")
	if err != nil {
		return err
	}
	healthy := baseline{}
	var noticed, excused int
	var survivors, failures []string
	for i := range all {
		m := &all[i]
		switch at := m.dir + ": " + m.Intent; {
		case !chosen.MatchString(at):
		case m.Survives != "":
			excused++
			fmt.Printf("excused   %s (%s)\n", at, m.Survives)
		default:
			began := time.Now()
			killed, err := m.try(ctx, limit, healthy)
			word := "noticed"
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				word = "error"
				failures = append(failures, at+": "+err.Error())
			case !killed:
				word = "SURVIVED"
				survivors = append(survivors, at)
			default:
				noticed++
			}
			fmt.Printf("%-9s %s, %s\n", word, at, time.Since(began).Round(time.Second))
		}
	}
	fmt.Printf("\n%d noticed, %d survived, %d excused\n", noticed, len(survivors), excused)
	for _, s := range survivors {
		fmt.Println("survived:", s)
	}
	switch {
	case len(failures) > 0:
		return errors.New(strings.Join(failures, "\n"))
	case float64(noticed) < least*float64(noticed+len(survivors)):
		return fmt.Errorf("tests notice fewer than %.0f%%", 100*least)
	}
	return nil
}

// baseline holds the tests that pass without a mutant, by package and arguments.
type baseline map[string]bool

// check runs a mutant's tests without the mutant: a test that fails anyway detects nothing.
func (b baseline) check(ctx context.Context, m *mutant, arguments string, limit time.Duration) error {
	key := m.dir + " " + arguments
	if b[key] {
		return nil
	}
	out, err := m.test(ctx, limit, append([]string{"-count=1"}, strings.Fields(arguments)...)...)
	if err != nil {
		return fmt.Errorf("go test %s fails without the mutant: %s", arguments, bytes.TrimSpace(out))
	}
	b[key] = true
	return nil
}

// try reports whether a test that passes without the mutant fails with it.
func (m *mutant) try(ctx context.Context, limit time.Duration, healthy baseline) (killed bool, err error) {
	file, text, err := m.apply()
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := overlayOf(dir, file, text)
	if err != nil {
		return false, err
	}
	if out, err := m.command(ctx, "build", "-overlay", overlay).CombinedOutput(); err != nil {
		return false, fmt.Errorf("it does not compile: %s", bytes.TrimSpace(out))
	}
	for _, arguments := range m.Tests {
		args := append([]string{"-overlay", overlay, "-count=1"}, strings.Fields(arguments)...)
		out, err := m.test(ctx, limit, args...)
		switch {
		case bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("no tests to run")):
			return false, fmt.Errorf("go test %s: %s", arguments, bytes.TrimSpace(out))
		case ctx.Err() != nil:
			return false, ctx.Err()
		case err != nil:
			return true, healthy.check(ctx, m, arguments, limit)
		}
	}
	return false, nil
}

// test runs tests. Their binary has no debug information, which saves a third of the linking time.
func (m *mutant) test(ctx context.Context, limit time.Duration, arguments ...string) ([]byte, error) {
	return m.command(ctx, append([]string{"test", "-vet=off", "-ldflags=-w", "-failfast", "-timeout", limit.String()},
		arguments...)...).CombinedOutput()
}

// command returns a go command in the mutant's package.
func (m *mutant) command(ctx context.Context, arguments ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "go", arguments...)
	c.Dir = m.dir
	return c
}

// overlayOf writes the file for the go command's -overlay flag, which replaces a file by its new text.
func overlayOf(dir, file string, text []byte) (name string, err error) {
	absolute, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	changed, name := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(changed, text, 0o600); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {absolute: changed}})
	if err != nil {
		return "", err
	}
	return name, os.WriteFile(name, overlay, 0o600)
}
