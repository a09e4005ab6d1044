// Command release makes everything that a release of capgate has, into a directory:
//
//	release -version v0.1.0 -out bin/release/v0.1.0
//
//	release check v0.1.0
//
//	release push bin/release/v0.1.0/capgate_0.1.0_oci.tar registry.example.com/capgate
//
//	release profile tools/release/capgate.pgo unary.pprof bursts.pprof
//
// `make release VERSION=v0.1.0` runs it. The list of steps is in steps.go; each step is a file. Two runs for one commit
// write the same bytes: times are the commit's, and nothing of the machine is written.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	command, args := run, os.Args[1:]
	if len(args) > 0 {
		switch args[0] {
		case "check":
			command, args = checkVersion, args[1:]
		case "push":
			command, args = push, args[1:]
		case "profile":
			command, args = mergeProfiles, args[1:]
		}
	}
	if err := command(ctx, args, os.Stdout); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "release:", err)
		}
		os.Exit(1)
	}
}

// run makes the release that args describe, and lists its files.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	r := &release{log: log.New(stdout, "", 0)}
	if err := r.parse(args); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "capgate-release")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	r.work = work
	if err := r.open(ctx); err != nil {
		return err
	}
	for _, s := range steps {
		if err := s.run(r, ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		r.log.Println("made", s.name)
	}
	r.log.Printf("%s of commit %.12s is in %s", r.version, r.commit, r.out)
	return nil
}

// checkVersion rejects an argument that is not a release version.
func checkVersion(_ context.Context, args []string, _ io.Writer) error {
	if len(args) != 1 || !isVersion.MatchString(args[0]) {
		return fmt.Errorf("the version is %q; write it as v0.1.0 or v0.2.0-rc.1", strings.Join(args, " "))
	}
	return nil
}

// parse reads the command line.
func (r *release) parse(args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(r.log.Writer())
	flags.StringVar(&r.version, "version", "", "`version` of the release, as in v0.1.0 or v0.2.0-rc.1")
	flags.StringVar(&r.out, "out", "", "`directory` of the files, which must be empty or missing")
	flags.StringVar(&r.source, "source", ".", "root `directory` of the repository")
	flags.BoolVar(&r.dirty, "dirty", false, "permit uncommitted changes, for tests")
	flags.StringVar(&r.profile, "pgo", profileFile,
		"`file` below the source with the CPU profile that capgate is compiled with, or off")
	only := flags.String("only", "", "`platforms` with commas, as in linux/amd64; default all")
	key := flags.String("key", "", "`file` of the key that signs the release; default unsigned")
	flags.StringVar(&r.cosign, "cosign", "", "`command` of cosign, which signs the checksums, too; default none")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *key != "" {
		var err error
		if r.key, err = readKey(*key); err != nil {
			return err
		}
	}
	if !isVersion.MatchString(r.version) {
		return fmt.Errorf("-version is %q; write it as v0.1.0 or v0.2.0-rc.1", r.version)
	}
	if r.out == "" || flags.NArg() > 0 {
		return errors.New("usage: release -version VERSION -out DIRECTORY")
	}
	for _, p := range allPlatforms {
		if *only == "" || strings.Contains(","+*only+",", ","+p.String()+",") {
			r.platforms = append(r.platforms, p)
		}
	}
	if len(r.platforms) == 0 {
		return fmt.Errorf("-only is %q; platforms are %v", *only, allPlatforms)
	}
	return nil
}
