package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capgate/capgate/internal/app"
	"github.com/capgate/capgate/internal/lib/buildinfo"
	"github.com/capgate/capgate/internal/settings"
)

const serveHelp = `FILE is capgate.yaml in the current directory if the line names none; capgate init writes one. The
gateway runs until SIGTERM or Ctrl-C, then drains. Flags take precedence over CAPGATE_* environment
variables, which take precedence over the file.`

func addOverrides(fs *pflag.FlagSet) settings.Overrides {
	return settings.Overrides{
		Listen: fs.String("listen", os.Getenv("CAPGATE_LISTEN"), "public `address` for all protocols (CAPGATE_LISTEN)"),
		Admin:  fs.String("admin", os.Getenv("CAPGATE_ADMIN"), "operators' `address` (CAPGATE_ADMIN)"),
		Redis: fs.String("redis", os.Getenv("CAPGATE_REDIS"),
			"`address` of the Redis that replicas share, or embedded; do not put a password here, because "+
				"a command line is visible to other users (CAPGATE_REDIS)"),
		Insecure: fs.Bool("admin-insecure", isOn(os.Getenv("CAPGATE_ADMIN_INSECURE")),
			"let the admin API work without credentials (CAPGATE_ADMIN_INSECURE)"),
		Level: fs.String("log-level", os.Getenv("CAPGATE_LOG_LEVEL"), "debug, info, warn or error (CAPGATE_LOG_LEVEL)"),
	}
}

// newServeCommand returns the command capgate serve.
func newServeCommand(std stdio) *cobra.Command {
	c := &cobra.Command{Use: "serve [FILE]", Short: "run the gateway with a configuration file", Long: serveHelp}
	file := c.Flags().String("config", envOr("CAPGATE_CONFIG", defaultConfig),
		"the configuration `file`, in place of FILE (CAPGATE_CONFIG)")
	over := addOverrides(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 1 {
			if c.Flags().Changed("config") {
				return usageError("want FILE or --config, not both")
			}
			*file = args[0]
		}
		named := len(args) == 1 || c.Flags().Changed("config") || os.Getenv("CAPGATE_CONFIG") != ""
		if err := missingConfig(*file, named); err != nil {
			return err
		}
		return serveFile(c.Context(), *file, over, std)
	}
	return exits(c, "0 the gateway has ended; 1 it cannot run; 2 wrong command line or configuration.")
}

// defaultConfig is the configuration file of a command line that names none.
const defaultConfig = "capgate.yaml"

// serveFile serves until ctx ends.
func serveFile(ctx context.Context, file string, over settings.Overrides, std stdio) error {
	hangUp := make(chan os.Signal, 1)
	signal.Notify(hangUp, syscall.SIGHUP) // before all that takes time: it would end the process
	defer signal.Stop(hangUp)
	s, err := settings.Load(file, over)
	if err != nil {
		return exitError{exitUsage, plainError{err}}
	}
	o := appOptions(std)
	o.File, o.Overrides, o.HangUp = file, over, hangUp
	p, err := app.New(s, o)
	if err != nil {
		return err
	}
	if link, token := p.AdminLink(); token {
		fmt.Fprintf(std.err, "Open the console. The link is valid until the gateway ends:\n  %s\n",
			link)
	} else {
		fmt.Fprintf(std.err, "Operators open the console at:\n  %s\n", link)
	}
	if inbox := p.InboxURL(); inbox != "" {
		fmt.Fprintf(std.err, "Approvers open the inbox at:\n  %s\n", inbox)
	}
	return p.Run(ctx)
}

// appOptions returns the options of a gateway in this process.
func appOptions(std stdio) app.Options {
	i := buildinfo.Get()
	return app.Options{Log: std.err, Version: i.Version, Revision: i.Commit, RuntimeDir: runtimeDir()}
}

// isOn reports whether a variable of the environment says yes.
func isOn(value string) bool {
	on, err := strconv.ParseBool(value)
	return err == nil && on
}

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}
