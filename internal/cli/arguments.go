package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capgate/capgate/internal/lib/nearest"
)

// arrange moves the names of commands to the front, since flags may also stand before them, as in "capgate policy
// --user ann list". After "--" all arguments are positional. The error is that of an unknown command, or of a flag
// with one dash; at is the command that it is about.
func arrange(root *cobra.Command, args []string) (at *cobra.Command, arranged []string, err error) {
	at = root
	var path, rest []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			return at, append(append(path, rest...), args[i:]...), nil
		case len(arg) > 1 && arg[0] == '-':
			name, _, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			f := flagBelow(at, name)
			if !strings.HasPrefix(arg, "--") && len(name) > 1 && (f != nil || name == "help") {
				return at, nil, usageError("%s: flags have two dashes: -%[1]s", arg)
			}
			if (name == "help" || name == "h") && at.HasSubCommands() && at.HasParent() {
				return at, append(path, "--help"), nil
			}
			rest = append(rest, arg)
			if f != nil && !hasValue && f.NoOptDefVal == "" && i+1 < len(args) {
				i++
				rest = append(rest, args[i])
			}
		case at.HasSubCommands():
			sub := commandNamed(at, arg)
			if sub == nil {
				return at, nil, unknownCommand(at, arg)
			}
			at, path = sub, append(path, sub.Name())
		default:
			rest = append(rest, arg)
		}
	}
	if len(rest) > 0 && at.HasSubCommands() && at.HasParent() {
		return at, nil, wantCommand(at)
	}
	return at, append(path, rest...), nil
}

func commandNamed(at *cobra.Command, name string) *cobra.Command {
	for _, sub := range at.Commands() {
		if sub.Name() == name || sub.HasAlias(name) {
			return sub
		}
	}
	return nil
}

// flagBelow finds a flag, by its name or its letter, of a command or of one below it; nil: none has it.
func flagBelow(at *cobra.Command, name string) *pflag.Flag {
	if f := at.Flags().Lookup(name); f != nil {
		return f
	}
	if len(name) == 1 {
		if f := at.Flags().ShorthandLookup(name); f != nil {
			return f
		}
	}
	for _, sub := range at.Commands() {
		if f := flagBelow(sub, name); f != nil {
			return f
		}
	}
	return nil
}

// checkPositional compares the number of positional arguments with those that the command's Use names: [ARG] may be
// missing, and ARG... may be repeated.
func checkPositional(c *cobra.Command, args []string) error {
	var least int
	endless := false
	words := strings.Fields(c.Use)[1:]
	written := strings.Join(append([]string{c.CommandPath()}, words...), " ")
	for i, word := range words {
		endless = endless || strings.Contains(word, "...")
		if strings.HasPrefix(word, "[") {
			continue
		}
		if least++; i >= len(args) {
			return usageError("%s is missing; write %s", strings.TrimSuffix(word, "..."), written)
		}
		if args[i] == "" {
			return usageError("%s is empty; write %s", word, written)
		}
		if choices := strings.Split(word, "|"); len(choices) > 1 && !slices.Contains(choices, args[i]) {
			return usageError("%q: want %s%s", args[i], orList(choices), nearest.Hint(args[i], choices))
		}
	}
	if len(args) > len(words) && !endless {
		return usageError("unexpected argument %q", args[len(words)])
	}
	return nil
}
