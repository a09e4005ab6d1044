package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capgate/capgate/internal/lib/nearest"
)

// usageError returns an error of the command line.
func usageError(format string, args ...any) error {
	return exitError{exitUsage, fmt.Errorf(format, args...)}
}

// wantCommand returns the error for a command line that ends before the command below at.
func wantCommand(at *cobra.Command) error { return usageError("want %s", orList(names(at))) }

// unknownCommand returns the error for a name that no command below at has.
func unknownCommand(at *cobra.Command, name string) error {
	hint := nearest.Hint(name, names(at))
	if suggested := at.SuggestionsFor(name); hint == "" && len(suggested) > 0 { // by SuggestFor, or by prefix
		hint = nearest.Hint(suggested[0], suggested)
	}
	if at.HasParent() {
		return usageError("unknown command %q%s; want %s", name, either(hint), orList(names(at)))
	}
	return usageError("unknown command %q%s; capgate help lists all", name, either(hint))
}

// either keeps a hint from meeting the semicolon after it.
func either(hint string) string { return strings.TrimSuffix(hint, "?") }

// explainFlag turns the error of a flag into one that says which flags there are.
func explainFlag(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var needs *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		return usageError("%s", unknownFlag(c, unknown.GetSpecifiedName(), unknown.GetSpecifiedShortnames() != ""))
	case errors.As(err, &invalid):
		return usageError("--%s %q: %v", invalid.GetFlag().Name, invalid.GetValue(), valueProblem(invalid))
	case errors.As(err, &needs):
		_, about := pflag.UnquoteUsage(needs.GetFlag())
		return usageError("--%s needs a value: %s", needs.GetFlag().Name, about)
	}
	return exitError{exitUsage, err}
}

// unknownFlag says which flag may have been meant.
func unknownFlag(c *cobra.Command, name string, letter bool) string {
	text := "unknown flag --" + name
	if letter {
		text = "unknown flag -" + name
	}
	if f := c.Flags().Lookup("output"); f != nil && (name == "json" || name == "yaml") {
		return text + "; write -o " + name
	}
	var all []string
	c.Flags().VisitAll(func(f *pflag.Flag) { all = append(all, f.Name) })
	if near := nearest.To(name, all); near != "" && !letter {
		return text + "; did you mean --" + near + "?"
	}
	if takers := takersOf(c, name); len(takers) > 0 {
		return text + "; it is a flag of " + orList(takers)
	}
	if near := extended(name, all); near != "" && !letter {
		return text + "; did you mean --" + near + "?"
	}
	slices.Sort(all)
	return text + "; the flags are --" + strings.Join(all, ", --")
}

// extended returns the flag with the fewest letters more or fewer at its end than a name, as --addr and --address have.
// It returns "" if there is no such flag.
func extended(name string, flags []string) (best string) {
	const least = 3 // letters that say what a name begins with
	for _, f := range flags {
		if min(len(f), len(name)) >= least && (strings.HasPrefix(f, name) || strings.HasPrefix(name, f)) &&
			(best == "" || abs(len(f)-len(name)) < abs(len(best)-len(name))) {
			best = f
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// takersOf returns the siblings of a command that have a flag.
func takersOf(c *cobra.Command, name string) (all []string) {
	if !c.HasParent() || !c.Parent().HasParent() {
		return nil
	}
	for _, sibling := range c.Parent().Commands() {
		if sibling.Flags().Lookup(name) != nil {
			all = append(all, sibling.CommandPath())
		}
	}
	return all
}

// valueProblem says what values a flag takes.
func valueProblem(e *pflag.InvalidValueError) string {
	switch e.GetFlag().Value.Type() {
	case "duration":
		return "want a duration, as in 30s or 5m"
	case "bool":
		return "want true or false"
	case "int", "uint", "int32", "uint32":
		return "want a whole number"
	}
	return e.Unwrap().Error()
}

// orList joins words as in "a, b or c".
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
