package cli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/conform"
	"github.com/capgate/capgate/internal/tenant"
)

const conformHelp = `It needs no gateway. Each rule of the capability protocol passes, fails or is not tested; the
output names the document that it comes from.

Many rules need a harmless call, which is made about fifty times. --tool and --args select it. With
--call-tools it is the first suitable tool of --manifest, or of the list of the discovery tool: the
author recommends to allow it, and its input_schema has examples or defaults for all required
arguments. That tool is called with invalid JSON, too. Without these flags no tool is called but the
discovery tool; the other calls are of a tool that does not exist, and uploads of small files.`

// conformCommand is capgate conform, as the command line describes it.
type conformCommand struct {
	*subject
	kit                               conform.Kit
	args, badArgs, slowArgs, dialects string
	largest                           string
}

// newConformCommand returns the command capgate conform.
func newConformCommand(std stdio) *cobra.Command {
	c := &cobra.Command{Use: "conform HOST:PORT",
		Short: "check whether a capability container conforms to the protocol", Long: conformHelp}
	k := &conformCommand{subject: addSubject(c, std)}
	k.addFlags(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := k.take(args[0]); err != nil {
			return exitError{exitUsage, err}
		}
		tell := func(r conform.Result) { fmt.Fprint(std.out, resultLine(r)) }
		if k.format != tableFormat {
			tell = func(conform.Result) {}
		}
		report := k.kit.Run(c.Context(), tell)
		err := k.data(report, func(w io.Writer) {
			fmt.Fprintf(w, "\n%d passed, %d failed, %d not tested%s\n", report.Passed, report.Failed, report.Skipped,
				notes(report.Noted))
		})
		if err == nil && (c.Context().Err() != nil || report.Failed > 0) {
			err = quiet(exitRefused)
		}
		return err
	}
	return exits(c, "0 no rule is broken; 1 a rule is broken; 2 wrong command line.")
}

func (c *conformCommand) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.kit.Harmless.Tool, "tool", "", "`name` of a harmless tool to call")
	fs.StringVar(&c.args, "args", "", "arguments of --tool, a `JSON` object; default {}")
	fs.BoolVar(&c.kit.Compose, "call-tools", false,
		"without --tool, find a harmless call and its arguments in the manifest or by discovery")
	fs.StringVar(&c.badArgs, "bad-args", "",
		"`JSON` arguments with which the tool fails; default none, or invalid JSON with --call-tools")
	fs.StringVar(&c.largest, "max-message", "",
		"`size` of requests that must be accepted; default 4MiB, and a note if 16MiB are not")
	fs.StringVar(&c.kit.Slow.Tool, "slow-tool", "",
		"`name` of a tool that takes seconds, to test deadlines and cancellation")
	fs.StringVar(&c.slowArgs, "slow-args", "", "arguments of --slow-tool, a `JSON` object; default {}")
	fs.StringVar(&c.dialects, "dialect", "",
		"check only this `dialect`: doc, live or legacy; default all supported ones")
	fs.DurationVar(&c.kit.Wait, "wait", 30*time.Second, "`duration` to wait for the container to be ready")
	fs.DurationVar(&c.kit.Timeout, "timeout", 20*time.Second, "`duration` of one check")
}

// take reads the address, and the flags that depend on others.
func (c *conformCommand) take(addr string) error {
	if err := c.subject.take(addr); err != nil {
		return err
	}
	c.kit.Target, c.kit.Manifest = c.target, c.manifest
	if c.badArgs != "" {
		c.kit.BadArgs = []byte(c.badArgs)
	}
	if largest, ok := tenant.ParseSize(c.largest); ok && largest >= 1<<10 && largest <= 64<<20 {
		c.kit.Largest = int(largest)
	} else if c.largest != "" {
		return fmt.Errorf("--max-message: %q is not a size of 1KiB to 64MiB, as in 16MiB", c.largest)
	}
	dialect, known := call.ParseDialect(c.dialects)
	if dialect != call.Auto {
		c.kit.Dialects = []call.Dialect{dialect}
	}
	c.kit.Harmless.Args, c.kit.Slow.Args = orEmptyObject(c.args), orEmptyObject(c.slowArgs)
	switch {
	case !known || c.dialects == call.Auto.String():
		return fmt.Errorf("--dialect: %q is not doc, live or legacy", c.dialects)
	case c.kit.Harmless.Tool != "" && c.kit.Compose:
		return errors.New("--tool and --call-tools exclude each other; give one of the two")
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

// notes returns the number of rules that passed with a note.
func notes(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d with a note", n)
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
