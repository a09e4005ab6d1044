package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/bench/peers"
)

var errUsage = errors.New("usage")

// options holds the values of the flags.
type options struct {
	scenarios   []scenario
	peers       []peers.Spec
	rounds      int
	window      time.Duration
	warm        time.Duration
	limit       time.Duration // of a run of all scenarios; later scenarios have fewer rounds, but at least one
	keep        string
	growth      bool
	tables      bool
	policy      bool
	tenants     bool
	redis       bool
	neighbour   bool
	quiet       []way // of neighbour, as floods
	floods      []way
	files       bool
	connections bool
	mcp         bool
	profiles    string // directory for CPU profiles of capgate; "" records none
	envoy       string // path of Envoy's binary, or its name in PATH
	capgate     peers.Capgate
	before      string // path of another build of capgate to compare with
	idle        idleOptions
	proxyCore   []int // empty if not pinned
	loadCore    []int
	out         string
	readme      string
}

type idleOptions struct{ streams, perConn, conns int }

const usage = `Usage: go run ./bench [flags]

Measures the processor time that a call costs a proxy: capgate and its peers, one
process and one core each, the load generator and the backend on another core,
everything on loopback. Each round gives every peer one short window in turn.
What is not installed is left out, with a word on how to install it.

Scenarios: %s
Peers:     %s

`

// addModes adds the flags of measurements other than the scenarios.
func addModes(fs *flag.FlagSet, o *options) {
	fs.BoolVar(&o.growth, "growth", false,
		"measure how cost grows with capabilities, connections, message size, TLS and GOMAXPROCS, instead of the "+
			"scenarios")
	fs.BoolVar(&o.tenants, "tenants", false,
		"measure authentication, limits and the recording of calls, instead of the scenarios")
	fs.BoolVar(&o.policy, "policy", false,
		"measure policy decisions from memory, with a million rules in Redis, instead of the scenarios")
	fs.BoolVar(&o.tables, "tables", false,
		"measure the memory, the changes and the routing of 10,000 capabilities with 10 backends each, "+
			"instead of the scenarios")
	fs.BoolVar(&o.neighbour, "neighbour", false,
		"measure the effect of one tenant's flood on another's calls, instead of the scenarios")
	fs.BoolVar(&o.files, "files", false,
		"measure a large file up and down, over HTTP and gRPC, instead of the scenarios")
	fs.BoolVar(&o.connections, "connections", false,
		"measure the memory of idle HTTP/2 connections, --idle-streams of them, instead of the scenarios")
	fs.BoolVar(&o.mcp, "mcp", false,
		"measure tools/call of MCP beside the same call over the JSON API, instead of the scenarios")
	fs.BoolVar(&o.redis, "redis", false,
		"measure the load of Redis by calls, and the effect of Redis faults on calls, instead of the scenarios")
	fs.StringVar(&o.profiles, "profiles", "",
		"`directory` for CPU profiles of capgate under the calls of the scenarios, which are not measured; with "+
			"--neighbour, for execution traces of capgate beside the floods")
}

// addRows adds the flags that choose rows of --neighbour.
func addRows(fs *flag.FlagSet, o *options) {
	title := func(w way) string { return w.title }
	o.quiet, o.floods = quietWays(), floodWays()
	fs.Func("quiet", "comma-separated `protocols` of the quiet tenant, with --neighbour; without the flag all",
		func(names string) (err error) {
			o.quiet, err = choose(names, quietWays(), title)
			return err
		})
	fs.Func("floods", "comma-separated `kinds` of floods, with --neighbour; without the flag all",
		func(names string) (err error) {
			o.floods, err = choose(names, floodWays(), title)
			return err
		})
}

func parseOptions(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	scenarioNames := fs.String("scenarios", "all", "comma-separated `names` of scenarios")
	peerNames := fs.String("peers", "all", "comma-separated `names` of peers; with --growth the default is capgate")
	fs.IntVar(&o.rounds, "rounds", 3, "rounds; each peer has one window in each")
	fs.DurationVar(&o.window, "window", time.Second, "length of a window")
	fs.DurationVar(&o.warm, "warm", 200*time.Millisecond, "`duration` of calls before each window that are not counted")
	fs.DurationVar(&o.limit, "limit", 9*time.Minute, "`duration` of a run of the scenarios; those that are behind get "+
		"fewer rounds")
	fs.StringVar(&o.keep, "keep", "quiet",
		"the round to print: quiet (the least load by the rest of the machine), min or median")
	addModes(fs, &o)
	addRows(fs, &o)
	fs.StringVar(&o.envoy, "envoy", "envoy", "`path` of Envoy's binary, or its name in PATH")
	fs.StringVar(&o.capgate.Path, "capgate", "bin/capgate", "`path` of capgate's binary (make build)")
	fs.StringVar(&o.capgate.Log, "capgate-log", os.DevNull, "`file` for capgate's output, its access log included")
	fs.StringVar(&o.before, "before", "", "`path` of another build of capgate, which is measured beside this one")
	capgateArgs := fs.String("capgate-args", "", "more `arguments` for capgate serve, separated by spaces")
	fs.IntVar(&o.idle.streams, "idle-streams", 10000, "streams of the idle scenario")
	fs.IntVar(&o.idle.perConn, "idle-per-conn", 500, "of these, on one client connection")
	fs.IntVar(&o.idle.conns, "idle-conns", 5000, "connections of the scenario of idle connections; over TLS "+
		"three tenths of them, which is all the memory that the gateway grants to one address")
	proxyCore := fs.Int("proxy-core", 0, "core of the proxy; -1 pins nothing")
	loadCore := fs.Int("load-core", 1, "core of the load generator and the backend")
	fs.StringVar(&o.out, "out", "",
		"markdown `file` whose part between <!-- results --> (or <!-- growth -->, <!-- tables -->, "+
			"<!-- policy -->, <!-- tenants -->, <!-- redis -->, <!-- neighbour -->, <!-- files -->, "+
			"<!-- connections -->, <!-- mcp -->) markers gets the tables")
	fs.StringVar(&o.readme, "readme", "", "markdown `file` whose part between <!-- costs --> markers gets the short "+
		"table of the scenarios")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			help(os.Stdout, fs)
			return o, err
		}
		return o, refuse(fs, err)
	}
	if fs.NArg() > 0 {
		return o, refuse(fs, fmt.Errorf("unexpected argument %q", fs.Arg(0)))
	}
	if o.growth && *peerNames == "all" {
		*peerNames = "capgate"
	}
	o.capgate.Args = strings.Fields(*capgateArgs)
	var err error
	if o.capgate.Path, err = filepath.Abs(o.capgate.Path); err != nil { // each peer runs in its own directory
		return o, err
	}
	if o.before != "" {
		if o.before, err = filepath.Abs(o.before); err != nil {
			return o, err
		}
	}
	if strings.ContainsRune(o.envoy, filepath.Separator) {
		if o.envoy, err = filepath.Abs(o.envoy); err != nil {
			return o, err
		}
	}
	o.setCores(*proxyCore, *loadCore)
	return o, o.check(fs, *scenarioNames, *peerNames)
}

// check fills in scenarios and peers, and rejects invalid values.
func (o *options) check(fs *flag.FlagSet, scenarioNames, peerNames string) (err error) {
	if o.scenarios, err = choose(scenarioNames, scenarios(o.idle),
		func(s scenario) string { return s.name }); err != nil {
		return refuse(fs, err)
	}
	if o.peers, err = choose(peerNames, allPeers(o.capgate, o.envoy, o.before),
		func(p peers.Spec) string { return p.Name }); err != nil {
		return refuse(fs, err)
	}
	switch {
	case o.rounds < 1 || o.rounds > 100:
		err = errors.New("--rounds must be 1 to 100")
	case o.window < 100*time.Millisecond || o.window > time.Minute:
		err = errors.New("--window must be 100ms to 1m")
	case o.warm < 0 || o.warm > time.Minute:
		err = errors.New("--warm must be 0 to 1m")
	case o.keep != "quiet" && o.keep != "min" && o.keep != "median":
		err = errors.New("--keep must be quiet, min or median")
	case o.idle.streams < 1 || o.idle.streams > 50000 || o.idle.perConn < 1:
		err = errors.New("--idle-streams must be 1 to 50000, --idle-per-conn at least 1")
	case o.idle.conns < 1 || o.idle.conns > 15000:
		err = errors.New("--idle-conns must be 1 to 15000")
	default:
		return nil
	}
	return refuse(fs, err)
}

func (o *options) setCores(proxy, load int) {
	n := runtime.NumCPU()
	if proxy < 0 || n < 2 || proxy == load || proxy >= n || load >= n {
		fmt.Fprintf(os.Stderr, "bench: %d cores, proxy on %d, load on %d: nothing is pinned, so figures will be "+
			"rough\n", n, proxy, load)
		return
	}
	o.proxyCore, o.loadCore = []int{proxy}, []int{load}
}

func allPeers(c peers.Capgate, envoy, before string) []peers.Spec {
	all := []peers.Spec{peers.HAProxyTCP(), peers.TCPRelay(), peers.CapgateSpec(c), peers.CapgateOn(c)}
	if before != "" {
		all = append(all, peers.Before(peers.CapgateSpec(c), before), peers.Before(peers.CapgateOn(c), before))
	}
	return append(all, peers.HAProxy(), peers.NGHTTPX(), peers.Nginx(), peers.Envoy(envoy), peers.GRPCGo())
}

// choose returns the named entries, in their own order.
func choose[T any](names string, all []T, name func(T) string) ([]T, error) {
	if names == "all" {
		return all, nil
	}
	want := strings.Split(names, ",")
	for _, w := range want {
		if !slices.ContainsFunc(all, func(t T) bool { return name(t) == w }) {
			return nil, fmt.Errorf("unknown name %q; want one of %s", w, list(all, name))
		}
	}
	return slices.DeleteFunc(all, func(t T) bool { return !slices.Contains(want, name(t)) }), nil
}

func list[T any](all []T, name func(T) string) string {
	var names []string
	for _, t := range all {
		names = append(names, name(t))
	}
	return strings.Join(names, " ")
}

func help(w io.Writer, fs *flag.FlagSet) {
	fmt.Fprintf(w, usage, list(scenarios(idleOptions{}), func(s scenario) string { return s.name }),
		list(allPeers(peers.Capgate{}, "", ""), func(p peers.Spec) string { return p.Name }))
	fs.VisitAll(func(f *flag.Flag) {
		kind, text := flag.UnquoteUsage(f)
		def := f.DefValue
		if def == "" {
			def = strconv.Quote(def)
		}
		fmt.Fprintf(w, "  --%s %s\n      %s (default %s)\n", f.Name, kind, text, def)
	})
}

func refuse(fs *flag.FlagSet, err error) error {
	fmt.Fprintf(os.Stderr, "bench: %v\n\n", err)
	help(os.Stderr, fs)
	return errUsage
}
