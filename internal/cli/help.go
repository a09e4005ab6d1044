package cli

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// exitAnnotation is the annotation of a command with the meanings of its exit statuses, if exitHelp does not say it.
const exitAnnotation = "exit"

// helpColumns is the width of help, in characters.
const helpColumns = 100

// optionalValue matches a flag with an optional value in pflag's help. The value must follow an equals sign.
var optionalValue = regexp.MustCompile(`--([a-z-]+) (\S+)\[=true\]`)

// exits sets what the exit statuses of a command mean.
func exits(c *cobra.Command, meaning string) *cobra.Command {
	c.Annotations = map[string]string{exitAnnotation: meaning}
	return c
}

// newHelpCommand returns the command capgate help.
func newHelpCommand(std stdio) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]...", Short: "describe a command",
		RunE: func(c *cobra.Command, args []string) error {
			at := c.Root()
			for _, name := range args {
				sub := commandNamed(at, name)
				if sub == nil {
					return unknownCommand(at, name)
				}
				at = sub
			}
			printHelp(std.out, at)
			return nil
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			at := c.Root()
			for _, name := range args {
				if at = commandNamed(at, name); at == nil {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
			}
			return names(at), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// printHelp describes a command: what it does, how it is written, its commands or its flags.
func printHelp(w io.Writer, c *cobra.Command) {
	if c.HasParent() {
		fmt.Fprintf(w, "%s%s.\n\n", strings.ToUpper(c.Short[:1]), c.Short[1:])
	} else {
		fmt.Fprintf(w, "%s\n\n", c.Short)
	}
	usage := c.CommandPath()
	if _, words, has := strings.Cut(c.Use, " "); has {
		usage += " " + words
	}
	if c.HasSubCommands() {
		usage += " COMMAND"
	}
	fmt.Fprintf(w, "Usage: %s [flags]\n", usage)
	if c.Long != "" {
		fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(c.Long))
	}
	if c.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", strings.TrimRight(c.Example, "\n"))
	}
	printCommands(w, c)
	c.InitDefaultHelpFlag()
	c.Flags().Lookup("help").Usage = "describe the command"
	if !c.HasParent() {
		fmt.Fprintf(w, "\ncapgate help COMMAND, or capgate COMMAND -h, describes a command.\n")
	}
	flags := c.Flags().FlagUsagesWrapped(helpColumns)
	fmt.Fprintf(w, "\nFlags:\n%s", optionalValue.ReplaceAllString(flags, "--$1[=$2]     "))
	meaning := exitHelp
	if own := c.Annotations[exitAnnotation]; own != "" {
		meaning = own
	}
	fmt.Fprintf(w, "\nExit status: %s\n", meaning)
}

// printCommands lists the commands below a command, by group.
func printCommands(w io.Writer, c *cobra.Command) {
	printGroup := func(title, id string) {
		fmt.Fprintf(w, "\n%s:\n", title)
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && sub.GroupID == id {
				fmt.Fprintf(w, "  %-11s %s\n", sub.Name(), strings.TrimSuffix(sub.Short, "."))
			}
		}
	}
	for _, g := range c.Groups() {
		printGroup(g.Title, g.ID)
	}
	if c.HasAvailableSubCommands() && len(c.Groups()) == 0 {
		printGroup("Commands", "")
	}
}
