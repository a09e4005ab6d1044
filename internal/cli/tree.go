package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
)

// commandTree returns capgate with all its commands. The files that are named after the commands declare them.
func commandTree(std stdio) *cobra.Command {
	root := &cobra.Command{
		Use: "capgate", Short: "capgate is a gateway for the tools of AI agents.",
		SilenceErrors: true, SilenceUsage: true, // run prints errors, once
		Args: cobra.ArbitraryArgs,
	}
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Run a gateway", []*cobra.Command{newDemoCommand(std), newInitCommand(std), newServeCommand(std),
			newCheckCommand(std), newConfigCommand(std)}},
		{"Call tools", []*cobra.Command{newInvokeCommand(std), newLinkCommand(std), newEnginesCommand(std)}},
		{"Operate a gateway", []*cobra.Command{
			newStatusCommand(std), newFleetsCommand(std), newDrainCommand(std), newUndrainCommand(std),
			newApprovalsCommand(std),
			newPolicyCommand(std), newCatalogCommand(std), newToolsetsCommand(std), newTenantsCommand(std),
			newKeysCommand(std),
			newCallsCommand(std), newAuditCommand(std), newSessionsCommand(std), newWebhooksCommand(std),
			newVerifyCommand(std), newBundleCommand(std), newHealthcheckCommand(std), newLoginCommand(std),
			newLogoutCommand(std),
		}},
		{"Write a capability", []*cobra.Command{
			newProbeCommand(std), newConformCommand(std), newRegisterCommand(std), newForwardCommand(std),
		}},
		{"Other", []*cobra.Command{newVersionCommand(std), newHelpCommand(std)}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, c := range group.commands {
			c.GroupID = group.title
		}
		root.AddCommand(group.commands...)
	}
	version := root.Flags().Bool("version", false, "show the version")
	root.RunE = func(*cobra.Command, []string) error {
		if *version {
			return showVersion(&output{stdio: std, format: tableFormat})
		}
		printHelp(std.err, root)
		return quiet(exitUsage)
	}
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	root.SetFlagErrorFunc(explainFlag)
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { printHelp(std.out, c) })
	root.SetHelpCommand(&cobra.Command{Hidden: true}) // not cobra's: help is an ordinary command
	root.SetCompletionCommandGroupID("Other")
	complete(root)
	return root
}

// complete gives every command the check of its positional arguments, and those with subcommands an error that names
// them.
func complete(c *cobra.Command) {
	for _, sub := range c.Commands() {
		complete(sub)
		if sub.Args == nil {
			sub.Args = checkPositional
		}
		if sub.HasSubCommands() {
			sub.RunE = func(*cobra.Command, []string) error { return wantCommand(sub) }
		}
		if sub.ValidArgsFunction == nil && !namesFile(sub) {
			sub.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
}

// namesFile reports whether a positional argument of a command is a file, which shells complete.
func namesFile(c *cobra.Command) bool { return strings.Contains(c.Use, "FILE") }

// names returns the names of the commands below a command.
func names(c *cobra.Command) (all []string) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			all = append(all, sub.Name())
		}
	}
	return all
}

// parent returns a command that consists of others.
func parent(use, about, long string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: about, Long: long, Args: cobra.ArbitraryArgs}
	c.AddCommand(commands...)
	return c
}

// addCompletion adds capgate completion.
func addCompletion(root *cobra.Command, args []string) {
	root.InitDefaultCompletionCmd(args...)
	completion := commandNamed(root, "completion")
	completion.Short = "print a script that lets a shell complete command lines"
	completion.Long = ""
	for _, shell := range completion.Commands() {
		shell.Short = "print the script for " + shell.Name()
	}
	completion.RunE = func(*cobra.Command, []string) error { return wantCommand(completion) }
}

// run runs a command line and returns the exit status.
func run(ctx context.Context, args []string, std stdio) int {
	root := commandTree(std)
	addCompletion(root, args)
	if len(args) == 0 || !strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		at, arranged, err := arrange(root, args)
		if err != nil {
			return report(at, err, std)
		}
		args = arranged
	}
	root.SetArgs(args)
	at, err := root.ExecuteContextC(ctx)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = exitError{exitUnreachable, errors.New("interrupted")}
	}
	return report(at, err, std)
}
