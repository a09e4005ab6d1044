package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/initfiles"
	"github.com/capgate/capgate/internal/lib/buildinfo"
	"github.com/capgate/capgate/internal/lib/redisurl"
)

const initHelp = `The configuration has one example fleet, allows its tools, and needs no Redis. FILE is capgate.yaml by
default; - is standard output. An existing file stays as it is, unless --force is given.

With --for, FILE is a directory, by default capgate-compose and so on. It gets all files to run the
gateway that way, with an example fleet and generated secrets: an operator's key in operator.key, a
caller's in caller.key. Files that exist are never overwritten. The command prints what to do next,
and what production needs beyond it.`

// hostName matches names of hosts.
var hostName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// initCommand is the command capgate init.
type initCommand struct {
	stdio
	way, tls string
	force    bool
	files    initfiles.Config
}

// newInitCommand returns the command capgate init.
func newInitCommand(std stdio) *cobra.Command {
	i := &initCommand{stdio: std}
	c := &cobra.Command{Use: "init [FILE]", Short: "write a configuration to begin with", Long: initHelp}
	fs := c.Flags()
	fs.BoolVar(&i.force, "force", false, "overwrite an existing file")
	fs.StringVar(&i.way, "for", "", "write all files to run a gateway with "+orList(initfiles.Ways()))
	fs.StringVar(&i.tls, "tls", "", "self-signed: make a certificate for the public port")
	fs.StringSliceVar(&i.files.Hosts, "host", nil, "`name` or address of the gateway besides localhost")
	fs.StringVar(&i.files.Image, "image", "", "the gateway's `image`, for compose and kubernetes")
	fs.StringVar(&i.files.Namespace, "namespace", "", "`namespace` of the objects, for kubernetes: the gateway "+
		"answers at capgate.NAMESPACE as well")
	fs.StringVar(&i.files.Redis, "redis", "", "`URL` of a Redis, such as rediss://capgate@HOST:6379, for systemd")
	_ = c.RegisterFlagCompletionFunc("for", // it is registered once
		cobra.FixedCompletions(initfiles.Ways(), cobra.ShellCompDirectiveNoFileComp))
	c.RunE = func(c *cobra.Command, args []string) error {
		target := strings.Join(args, "") // at most one
		if i.way != "" {
			if c.Flags().Changed("tls") && i.tls != "self-signed" {
				return usageError("--tls %q: want self-signed", i.tls)
			}
			return i.writeAll(target)
		}
		for _, flag := range []string{"tls", "host", "image", "namespace", "redis"} {
			if c.Flags().Changed(flag) {
				return usageError("--%s requires --for", flag)
			}
		}
		return i.writeExample(cmp.Or(target, defaultConfig))
	}
	return exits(c, "0 success; 1 a file exists or cannot be written; 2 wrong command line.")
}

// writeExample writes the configuration alone.
func (i *initCommand) writeExample(file string) error {
	if file == "-" {
		_, err := fmt.Fprint(i.out, initfiles.Example)
		return err
	}
	if err := writeNew(file, initfiles.Example, i.force); err != nil {
		return err
	}
	serve := "capgate serve"
	if file != defaultConfig {
		serve += " " + file
	}
	fmt.Fprintf(i.out, "%s is written. Next:\n\n"+
		"  1. start the backend of the example fleet, in another terminal:\n"+
		"     capgate demo --weather 127.0.0.1:50051\n  2. start the gateway: %s\n"+
		"  3. call a tool:\n     curl localhost:8080/v1/capabilities/weather/tools/get_current_weather -d "+
		"'{\"location\":\"Berlin\"}'\n\ncapgate check %[1]s finds mistakes after you changed the file.\n",
		file, serve)
	return nil
}

// writeAll writes all files of a way of running a gateway.
func (i *initCommand) writeAll(dir string) error {
	if i.files.Dir = cmp.Or(dir, "capgate-"+i.way); dir == "-" {
		return usageError("--for writes a directory, not standard output")
	}
	if err := i.check(); err != nil {
		return err
	}
	i.files.TLS, i.files.UID, i.files.GID = i.tls != "", os.Getuid(), os.Getgid()
	i.files.Image = cmp.Or(i.files.Image, releasedImage(buildinfo.Get().Version))
	var err error
	if i.files.Program, err = os.Executable(); err != nil {
		return fmt.Errorf("find the running program: %w", err)
	}
	built, err := initfiles.Build(i.way, i.files)
	if err != nil {
		return err
	}
	if err := initfiles.Write(i.files.Dir, built.Files); err != nil {
		return refused("nothing is written: %w", err)
	}
	fmt.Fprintf(i.out, "%s has %d files. Next:\n\n%s\nBefore production, decide (docs/run/production.md):\n\n",
		i.files.Dir, len(built.Files), built.Next)
	for _, text := range built.Undecided {
		fmt.Fprintf(i.out, "  - %s\n", text)
	}
	fmt.Fprintln(i.out, "  - fleets: weather is a demonstration; list your capabilities in its place")
	return nil
}

// check checks the flags of --for.
func (i *initCommand) check() error {
	ways := initfiles.Ways()
	switch {
	case !slices.Contains(ways, i.way):
		return usageError("--for %q: want %s", i.way, orList(ways))
	case i.force:
		return usageError("--force and --for exclude each other: --for never overwrites a file")
	case i.files.Redis != "" && i.way != "systemd":
		return usageError("--redis is for systemd; %s has a Redis of its own", i.way)
	case i.files.Namespace != "" && i.way != "kubernetes":
		return usageError("--namespace is for kubernetes")
	case i.files.Namespace != "" && !call.IsLabel(i.files.Namespace):
		return usageError("--namespace %q: want 1 to 63 lower-case letters, digits and hyphens", i.files.Namespace)
	case i.files.Image != "" && i.way == "systemd":
		return usageError("--image is not for systemd, which runs a program")
	}
	for at, host := range i.files.Hosts {
		host = strings.ToLower(host)
		i.files.Hosts[at] = host
		if !hostName.MatchString(host) && net.ParseIP(host) == nil {
			return usageError("--host %q: want a name or an address, without a port", host)
		}
	}
	if i.files.Redis != "" {
		u, err := redisurl.Parse(i.files.Redis)
		if err != nil || u.Username != "capgate" || u.Password+u.SentinelPassword != "" {
			return usageError("--redis: want a URL with the user capgate and without passwords, such as " +
				"rediss://capgate@HOST:6379")
		}
	}
	return nil
}

// releasedVersion matches versions of releases and prereleases, and no others.
var releasedVersion = regexp.MustCompile(`^v\d+\.\d+\.\d+(-(alpha|beta|rc)(\.?\d+)*)?$`)

// releasedImage returns the image of a release, or the one that docker build -t capgate makes.
func releasedImage(version string) string {
	if releasedVersion.MatchString(version) {
		return "ghcr.io/capgate/capgate:" + version
	}
	return initfiles.OwnImage
}

// writeNew writes a file that does not exist yet, unless force is set.
func writeNew(file, text string, force bool) error {
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
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
