package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// verb is one thing that a command does, and how many words it takes.
type verb struct {
	name  string
	words int
	run   func(context.Context) error
	takes []string // its flags, except those with the gateway's address
	local bool     // needs no gateway, and takes no flags for its address
}

// verbs is a command whose verbs call a gateway: by default, its admin API.
type verbs struct {
	flags   *flag.FlagSet // its name is the command's
	usage   string
	all     []verb
	reach   []string                                // the flags with the gateway's address
	take    func(verb string, words []string) error // the words of the line
	dial    func(grpc.ClientConnInterface)          // the gateway
	explain func(context.Context, error) string     // explains errors of the admin API
	from    *caller                                 // not nil: the gateway is called at its public port
}

// run is the command.
func (v *verbs) run(ctx context.Context, args []string, std stdio) int {
	v.flags.SetOutput(io.Discard) // errors are printed below, once
	connect := v.connect()
	words, err := parseFlags(v.flags, args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(std.out, v.usage)
		v.flags.SetOutput(std.out)
		v.flags.PrintDefaults()
		return 0
	}
	one, wrong := v.find(words)
	if err == nil {
		err = wrong
	}
	if err != nil {
		return wrongLine(v.flags, err, std)
	}
	if !one.local {
		conn, err := connect("capgate-" + v.flags.Name())
		if err != nil {
			return wrongLine(v.flags, err, std)
		}
		defer func() { _ = conn.Close() }()
		v.dial(conn)
	}
	if err := one.run(ctx); err != nil {
		explain := v.explain
		if v.from != nil {
			explain = v.from.explain
		}
		text := explain(ctx, err)
		fmt.Fprintf(std.err, "capgate %s: %s\n", v.flags.Name(), text)
		if away(err) {
			return exitTransport
		}
		return exitRefused
	}
	return 0
}

// connect adds the flags with the gateway's address, and returns the function that connects after parsing.
func (v *verbs) connect() func(agent string) (*grpc.ClientConn, error) {
	if v.from == nil {
		v.reach = []string{"admin"}
		admin := addAdmin(v.flags)
		v.explain = func(ctx context.Context, err error) string { return explainAdmin(ctx, *admin, err) }
		return func(agent string) (*grpc.ClientConn, error) { return dialAdmin(*admin, agent) }
	}
	v.reach = callerFlags
	return func(agent string) (*grpc.ClientConn, error) {
		if err := v.from.read(); err != nil {
			return nil, err
		}
		return v.from.dial(agent)
	}
}

// find takes the words of the line.
func (v *verbs) find(words []string) (found verb, err error) {
	names := make([]string, len(v.all))
	for i := range v.all {
		names[i] = v.all[i].name
	}
	known := strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
	if len(words) == 0 {
		return found, errors.New("want " + known)
	}
	for _, one := range v.all {
		if one.name != words[0] {
			continue
		}
		if words = words[1:]; len(words) != one.words {
			return found, fmt.Errorf("%s wants %s, not %d", one.name, count(one.words, "word"), len(words))
		}
		if err := v.checkFlags(one); err != nil {
			return found, err
		}
		return one, v.take(one.name, words)
	}
	return found, fmt.Errorf("unknown %q; want %s", words[0], known)
}

// checkFlags rejects flags of other verbs, because silently ignored flags mislead.
func (v *verbs) checkFlags(one verb) error {
	takes := slices.Clone(one.takes)
	if !one.local {
		takes = append(takes, v.reach...)
	}
	var wrong []string
	v.flags.Visit(func(f *flag.Flag) {
		if !slices.Contains(takes, f.Name) {
			wrong = append(wrong, "--"+f.Name)
		}
	})
	switch {
	case len(wrong) == 0:
		return nil
	case len(takes) == 0:
		return fmt.Errorf("%s takes no flags; remove %s", one.name, strings.Join(wrong, ", "))
	}
	return fmt.Errorf("%s takes no %s; its flags are --%s", one.name, strings.Join(wrong, ", "),
		strings.Join(takes, ", --"))
}

// soon runs a verb with the timeout of one request.
func soon(run func(context.Context) error) func(context.Context) error {
	return within(requestTimeout, run)
}

func within(most time.Duration, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		return run(ctx)
	}
}

// away reports whether a retry may succeed.
func away(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled
}
