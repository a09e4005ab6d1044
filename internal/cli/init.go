package cli

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
)

// firstConfig is the configuration that capgate init writes.
//
//go:embed init.yaml
var firstConfig []byte

const initHelp = `The configuration has one example fleet, allows its tools, and needs no Redis. FILE is capgate.yaml by
default; - is standard output. An existing file stays as it is, unless --force is given.`

// newInitCommand returns the command capgate init.
func newInitCommand(std stdio) *cobra.Command {
	c := &cobra.Command{Use: "init [FILE]", Short: "write a configuration to begin with", Long: initHelp}
	force := c.Flags().Bool("force", false, "overwrite an existing file")
	c.RunE = func(_ *cobra.Command, args []string) error {
		file := defaultConfig
		if len(args) == 1 {
			file = args[0]
		}
		if file == "-" {
			_, err := std.out.Write(firstConfig)
			return err
		}
		if err := writeNew(file, firstConfig, *force); err != nil {
			return err
		}
		serve := "capgate serve"
		if file != defaultConfig {
			serve += " " + file
		}
		fmt.Fprintf(std.out, "%s is written. Next:\n\n"+
			"  1. start the backend of the example fleet, from a clone of capgate:\n"+
			"     go run ./examples/weather/cmd/weather --listen 127.0.0.1:50051\n  2. start the gateway: %s\n"+
			"  3. call a tool:\n     curl localhost:8080/v1/capabilities/weather/tools/get_current_weather -d "+
			"'{\"location\":\"Berlin\"}'\n\ncapgate check %[1]s finds mistakes after you changed the file.\n",
			file, serve)
		return nil
	}
	return exits(c, "0 success; 1 the file exists or cannot be written; 2 wrong command line.")
}

// writeNew writes a file that does not exist yet, unless force is set.
func writeNew(file string, data []byte, force bool) error {
	how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(file, how, 0o644) //nolint:gosec // a configuration without secrets, which others may read
	if errors.Is(err, fs.ErrExist) {
		return refused("%s exists; --force overwrites it", file)
	}
	if err != nil {
		return refused("%s cannot be written: %w", file, reasonOf(err))
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
