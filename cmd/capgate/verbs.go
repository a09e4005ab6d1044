package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
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
}

// verbs is a command whose verbs ask a gateway: its operators' port, unless it says otherwise.
type verbs struct {
	flags *flag.FlagSet // its name is the command's
	usage string
	all   []verb
	take  func(verb string, words []string) error // the words of the line
	dial  func(grpc.ClientConnInterface)          // the gateway
	from  *caller                                 // the gateway is asked at its public port, by this one
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
	run, wrong := v.find(words)
	if err == nil {
		err = wrong
	}
	if err != nil {
		return wrongLine(v.flags, err, std)
	}
	conn, err := connect("capgate-" + v.flags.Name())
	if err != nil {
		return wrongLine(v.flags, err, std)
	}
	defer func() { _ = conn.Close() }()
	v.dial(conn)
	if err := run(ctx); err != nil {
		text := describeStatus(err)
		if v.from != nil {
			text = v.from.explain(ctx, err)
		}
		fmt.Fprintf(std.err, "capgate %s: %s\n", v.flags.Name(), text)
		if away(err) {
			return exitTransport
		}
		return exitRefused
	}
	return 0
}

// connect adds the flags that say where the gateway is, and answers with what reads them.
func (v *verbs) connect() func(agent string) (*grpc.ClientConn, error) {
	if v.from == nil {
		admin := addAdmin(v.flags)
		return func(agent string) (*grpc.ClientConn, error) { return dialOperators(*admin, agent) }
	}
	return func(agent string) (*grpc.ClientConn, error) {
		if err := v.from.read(); err != nil {
			return nil, err
		}
		return v.from.dial(agent)
	}
}

// find takes the words of the line.
func (v *verbs) find(words []string) (run func(context.Context) error, err error) {
	names := make([]string, len(v.all))
	for i := range v.all {
		names[i] = v.all[i].name
	}
	known := strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
	if len(words) == 0 {
		return nil, errors.New("want " + known)
	}
	for _, one := range v.all {
		if one.name != words[0] {
			continue
		}
		if words = words[1:]; len(words) != one.words {
			return nil, fmt.Errorf("%s wants %s, not %d", one.name, count(one.words, "word"), len(words))
		}
		return one.run, v.take(one.name, words)
	}
	return nil, fmt.Errorf("%q is not known; want %s", words[0], known)
}

// soon bounds what a verb asks.
func soon(run func(context.Context) error) func(context.Context) error { return within(askTime, run) }

func within(most time.Duration, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		return run(ctx)
	}
}

// away says whether a later try may do.
func away(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled
}
