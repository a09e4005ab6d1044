package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/conform"
)

const conformUsage = `Usage: capgate conform [flags] HOST:PORT

Checks, without a gateway, whether a capability container conforms to the capability protocol.
Each rule passes, fails or is not tested; the output names the document that it comes from.

Many rules need a harmless call, which is made about fifty times. --tool and --args select it. By
default it is the first suitable tool of --manifest, or of the list of the discovery tool: the
author recommends to allow it, and its input_schema has examples or defaults for all required
arguments.

Exit status: 0 if no rule is broken; 1 if a rule is broken; 2 for a wrong command line.

Flags:
`

// exitBroken is that of a container that breaks a rule.
const exitBroken = 1

// conformCommand is capgate conform, as the command line describes it.
type conformCommand struct {
	*subject
	kit                               conform.Kit
	args, badArgs, slowArgs, dialects string
}

func runConform(ctx context.Context, args []string, std stdio) int {
	fs := flag.NewFlagSet("conform", flag.ContinueOnError)
	c := conformCommand{subject: addSubject(fs)}
	fs.StringVar(&c.kit.Harmless.Tool, "tool", "", "`name` of a harmless tool to call")
	fs.StringVar(&c.args, "args", "", "arguments of --tool, a `JSON` object; default {}")
	fs.StringVar(&c.badArgs, "bad-args", "", "`JSON` arguments with which the tool fails; default invalid JSON")
	fs.StringVar(&c.kit.Slow.Tool, "slow-tool", "",
		"`name` of a tool that takes seconds, to test deadlines and cancellation")
	fs.StringVar(&c.slowArgs, "slow-args", "", "arguments of --slow-tool, a `JSON` object; default {}")
	fs.StringVar(&c.dialects, "dialect", "",
		"check only this `dialect`: doc, live or legacy; default all supported ones")
	fs.DurationVar(&c.kit.Wait, "wait", 30*time.Second, "`duration` to wait for the container to be ready")
	fs.DurationVar(&c.kit.Timeout, "timeout", 20*time.Second, "`duration` of one check")
	words, status, ok := parseLine(fs, args, 1, conformUsage, std)
	if !ok {
		return status
	}
	if err := c.take(words); err != nil {
		return wrongLine(fs, err, std)
	}
	tell := func(r conform.Result) { fmt.Fprint(std.out, resultLine(r)) }
	if c.json {
		tell = func(conform.Result) {}
	}
	report := c.kit.Run(ctx, tell)
	if c.json {
		_ = json.NewEncoder(std.out).Encode(report) // stdout is gone
	} else {
		fmt.Fprintf(std.out, "\n%d passed, %d failed, %d not tested\n", report.Passed, report.Failed, report.Skipped)
	}
	if ctx.Err() != nil || report.Failed > 0 {
		return exitBroken
	}
	return 0
}

// take parses the words and flags that need more than the flag package.
func (c *conformCommand) take(words []string) error {
	if err := c.subject.take(words); err != nil {
		return err
	}
	c.kit.Target, c.kit.Manifest = c.target, c.manifest
	if c.badArgs != "" {
		c.kit.BadArgs = []byte(c.badArgs)
	}
	dialect, known := call.ParseDialect(c.dialects)
	if dialect != call.Auto {
		c.kit.Dialects = []call.Dialect{dialect}
	}
	c.kit.Harmless.Args, c.kit.Slow.Args = orEmptyObject(c.args), orEmptyObject(c.slowArgs)
	switch {
	case !known || c.dialects == call.Auto.String():
		return fmt.Errorf("--dialect: %q is not doc, live or legacy", c.dialects)
	case c.kit.Harmless.Tool == "" && c.args != "", c.kit.Slow.Tool == "" && c.slowArgs != "":
		return errors.New("--args requires --tool, and --slow-args requires --slow-tool")
	case !isObject(c.kit.Harmless.Args):
		return errors.New("--args is not a JSON object")
	case !isObject(c.kit.Slow.Args):
		return errors.New("--slow-args is not a JSON object")
	case c.kit.Wait <= 0 || c.kit.Timeout <= 0:
		return errors.New("--wait and --timeout must be more than 0s")
	}
	return nil
}

func orEmptyObject(args string) []byte {
	if args == "" {
		args = "{}"
	}
	return []byte(args)
}

// resultLine shows one result to people.
func resultLine(r conform.Result) string {
	verdict := string(r.Verdict)
	if r.Verdict == conform.Skip {
		verdict = "not tested"
	}
	line := fmt.Sprintf("%-10s  %-6s  %-16s  %s [%s]\n", verdict, orDash(r.Dialect), r.Rule, r.Says, r.Source)
	if r.Why != "" {
		line += "      " + r.Why + "\n"
	}
	return line
}
