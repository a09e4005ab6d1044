package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/capgate/capgate/internal/config"
)

const serveUsage = `Usage: capgate serve [--config FILE] [flags]

Runs the gateway until SIGTERM or Ctrl-C, then drains it. Flags take precedence over CAPGATE_*
environment variables, which take precedence over the file.

Flags:
`

// overrides are the fields that a command line or the environment may change. The zero
// value changes none.
type overrides struct {
	listen, admin, redis, level *string
}

func addOverrides(fs *flag.FlagSet) overrides {
	return overrides{
		listen: fs.String("listen", os.Getenv("CAPGATE_LISTEN"), "public `address` for all protocols (CAPGATE_LISTEN)"),
		admin:  fs.String("admin", os.Getenv("CAPGATE_ADMIN"), "operators' `address` (CAPGATE_ADMIN)"),
		redis: fs.String("redis", os.Getenv("CAPGATE_REDIS"),
			"`address` of the Redis that replicas share, or embedded; do not put a password here, because "+
				"a command line is visible to other users (CAPGATE_REDIS)"),
		level: fs.String("log-level", os.Getenv("CAPGATE_LOG_LEVEL"), "debug, info, warn or error (CAPGATE_LOG_LEVEL)"),
	}
}

func (o overrides) apply(cfg *config.Config) error {
	for value, field := range map[*string]*string{o.listen: &cfg.Listen, o.admin: &cfg.Admin} {
		if value != nil && *value != "" {
			*field = *value
		}
	}
	if o.redis != nil && *o.redis != "" {
		if wrong := config.CheckRedis(*o.redis); wrong != "" {
			return fmt.Errorf("redis: %s", wrong)
		}
		cfg.Redis.URL = *o.redis
	}
	if o.level == nil || *o.level == "" {
		return nil
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(*o.level)); err != nil {
		return fmt.Errorf("log-level %q: want debug, info, warn or error", *o.level)
	}
	cfg.Log.Level = level
	return nil
}

func runServe(ctx context.Context, args []string, std stdio) int {
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	file := fs.String("config", envOr("CAPGATE_CONFIG", "capgate.yaml"), "the configuration `file` (CAPGATE_CONFIG)")
	over := addOverrides(fs)
	if status, ok := parseOnlyFlags(fs, args, serveUsage, std); !ok {
		return status
	}
	hangUp := make(chan os.Signal, 1)
	signal.Notify(hangUp, syscall.SIGHUP) // before all that takes time: it would end the process
	defer signal.Stop(hangUp)
	s, err := loadSettings(*file, over)
	if err != nil {
		fmt.Fprintln(std.err, err)
		return exitUsage
	}
	p, err := build(s, std.err)
	if err == nil {
		p.reloader.file, p.reloader.over, p.reloader.hangUp = *file, over, hangUp
		err = p.run(ctx)
	}
	if err != nil {
		fmt.Fprintf(std.err, "capgate serve: %v\n", err)
		return 1
	}
	return 0
}

// parseOnlyFlags parses a command line that has no positional arguments. When it
// returns false the command is over with the status.
func parseOnlyFlags(fs *flag.FlagSet, args []string, usage string, std stdio) (int, bool) {
	_, status, ok := parseLine(fs, args, 0, usage, std)
	return status, ok
}

// parseLine parses a command line with a maximum number of positional arguments. If ok is false, the command ends
// with the status.
func parseLine(fs *flag.FlagSet, args []string, most int, usage string, std stdio) (words []string, status int,
	ok bool) {
	fs.SetOutput(io.Discard) // errors are printed below, once
	words, err := parseFlags(fs, args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(std.out, usage)
		fs.SetOutput(std.out)
		fs.PrintDefaults()
		return nil, 0, false
	}
	if err == nil && len(words) > most {
		err = fmt.Errorf("unexpected argument %q", words[most])
	}
	if err != nil {
		return nil, wrongLine(fs, err, std), false
	}
	return words, 0, true
}

// wrongLine prints an error of the command line and returns the exit status.
func wrongLine(fs *flag.FlagSet, err error, std stdio) int {
	fmt.Fprintf(std.err, "capgate %s: %v\nTry: capgate %s -h\n", fs.Name(), err, fs.Name())
	return exitUsage
}

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}
