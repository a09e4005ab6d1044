package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Exit statuses, the same in all commands.
const (
	exitRefused     = 1 // the gateway, the tool, the container or a check says no; a retry changes nothing
	exitUsage       = 2 // the command line or the configuration cannot be understood; nothing was done
	exitUnreachable = 3 // the gateway, or what it calls, did not answer; a retry may succeed
)

// callAway describes exitUnreachable for a call of a tool, and gatewayAway for any other request.
const (
	callAway    = "the gateway or the backend is unavailable or too slow, or the answer is incomplete"
	gatewayAway = "the gateway is unavailable or too slow"
)

// exitHelp describes the exit statuses in help texts, unless a command has its own description.
const exitHelp = "0 success; 1 refused; 2 wrong command line; 3 " + gatewayAway + "."

// exitError is an error with the exit status of the command. A nil error was printed before.
type exitError struct {
	status int
	error
}

func (e exitError) Unwrap() error { return e.error }

// refused returns an error that ends the command with exitRefused.
func refused(format string, args ...any) error {
	return exitError{exitRefused, fmt.Errorf(format, args...)}
}

// quiet ends the command with a status, after it printed all there is to say.
func quiet(status int) error {
	if status == 0 {
		return nil
	}
	return exitError{status: status}
}

// report prints the error of a command, and returns the exit status.
func report(c *cobra.Command, err error, std stdio) int {
	if err == nil {
		return 0
	}
	status := exitRefused
	var of exitError
	if errors.As(err, &of) {
		if status = of.status; of.error == nil {
			return status
		}
	}
	var plain plainError
	if errors.As(err, &plain) {
		fmt.Fprintln(std.err, plain.error)
		return status
	}
	fmt.Fprintf(std.err, "%s: %v\n", c.CommandPath(), err)
	if status == exitUsage {
		fmt.Fprintf(std.err, "Try: %s -h\n", c.CommandPath())
	}
	return status
}

// plainError is printed without the command's name, because its lines begin with the names of files.
type plainError struct{ error }
