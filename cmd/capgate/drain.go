package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/capgate/capgate/gateway/admin"
)

const drainUsage = `Usage: capgate drain --backend HOST:PORT [flags]

Drains a backend at all replicas of the gateway, and waits until it has no calls in flight. A
draining backend gets no new calls, except those of sessions pinned to it, until capgate drain
--undo ends the drain. A drain survives a restart of the gateway.

Exit status: 0 on success; 1 if calls are left after --timeout (the drain stays); 2 for a wrong
command line; 3 if the gateway could not be reached or rejected the request.

Flags:
`

// drainPoll is the interval of requests for the remaining calls.
const drainPoll = 250 * time.Millisecond

// drainCommand is the command line of capgate drain.
type drainCommand struct {
	port    *adminClient
	backend string
	request admin.DrainRequest
	undo    bool
	timeout time.Duration
	out     io.Writer
}

// errCallsLeft is the error of a drain that did not finish in time.
var errCallsLeft = errors.New("not finished")

func runDrain(ctx context.Context, args []string, std stdio) int {
	d := drainCommand{out: std.out}
	fs := flag.NewFlagSet("drain", flag.ContinueOnError)
	admin := addAdmin(fs)
	fs.StringVar(&d.backend, "backend", "", "`host:port` of the backend, as capgate status shows it")
	fs.StringVar(&d.request.Capability, "capability", "",
		"only in the fleet of the capability with this `name`; default all fleets with the backend")
	fs.BoolVar(&d.request.Force, "force", false,
		"drain even the last backend of a fleet; its calls are then rejected")
	fs.BoolVar(&d.undo, "undo", false, "end the drain of the backend")
	fs.DurationVar(&d.timeout, "timeout", 2*time.Minute, "maximum `duration` to wait for calls to end; 0: do not wait")
	if status, ok := parseOnlyFlags(fs, args, drainUsage, std); !ok {
		return status
	}
	var err error
	switch {
	case d.backend == "":
		err = errors.New("--backend is required")
	case d.undo && (given(fs, "force") || given(fs, "timeout")):
		err = errors.New("--undo takes neither --force nor --timeout")
	case d.timeout < 0:
		err = errors.New("--timeout must not be negative")
	default:
		d.port, err = newAdminClient(*admin)
	}
	if err != nil {
		return wrongLine(fs, err, std)
	}
	switch err := d.run(ctx); {
	case err == nil:
		return 0
	case errors.Is(err, errCallsLeft):
		fmt.Fprintf(std.err, "capgate drain: %v\n", err)
		return exitCallsLeft
	default:
		fmt.Fprintf(std.err, "capgate drain: %v\n", err)
		return exitTransport
	}
}

// exitCallsLeft is the exit status of a drain with remaining calls.
const exitCallsLeft = 1

func (d *drainCommand) run(ctx context.Context) error {
	path := "/v1/backends/" + url.PathEscape(d.backend)
	var state admin.BackendDrains
	if d.undo {
		d.request.Force = false
		if err := d.port.do(ctx, http.MethodPost, path+":undrain", d.request, &state); err != nil {
			return err
		}
		fmt.Fprintf(d.out, "%s is back in %s\n", d.backend, fleetsOf(state))
		if !state.Shared {
			fmt.Fprintln(d.out, "redis is unavailable: the other replicas will learn of it when it is back")
		}
		return nil
	}
	if err := d.port.do(ctx, http.MethodPost, path+":drain", d.request, &state); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "%s gets no new calls in %s\n", d.backend, fleetsOf(state))
	if d.timeout == 0 {
		return nil
	}
	return d.await(ctx, path)
}

// await waits until no replica has calls left.
func (d *drainCommand) await(ctx context.Context, path string) error {
	if d.request.Capability != "" {
		path += "?capability=" + url.QueryEscape(d.request.Capability)
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	ticker := time.NewTicker(drainPoll)
	defer ticker.Stop()
	for told := "the calls in flight are unknown"; ; {
		var state admin.BackendDrains
		err := d.port.do(ctx, http.MethodGet, path, nil, &state)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("the drain stays, but the calls in flight are unknown: %w", err)
		}
		if err == nil {
			left, over := leftOf(state)
			if over {
				fmt.Fprintln(d.out, left)
				return nil
			}
			if left != told {
				fmt.Fprintln(d.out, left)
				told = left
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%w after %v: %s; the drain stays", errCallsLeft, d.timeout, told)
		}
	}
}

// leftOf describes the remaining calls of a drain, and reports whether it is over.
func leftOf(state admin.BackendDrains) (left string, over bool) {
	var calls int64
	var unheard, replicas int
	drained := true
	for _, d := range state.Drains {
		calls += d.InFlight
		unheard, replicas = max(unheard, d.Unheard), max(replicas, d.Replicas)
		drained = drained && d.Drained
	}
	switch {
	case !drained:
		return "the drain has been ended", false
	case !state.Shared:
		return "redis is unavailable: the other replicas will learn of it when it is back; " + count(int(calls), "call") +
			" in flight at this one", false
	case unheard > 0:
		return count(unheard, "replica") + " of " + fmt.Sprint(replicas) + " did not get the change yet", false
	case calls > 0:
		return count(int(calls), "call") + " in flight at " + count(replicas, "replica"), false
	default:
		return "no call is in flight there, at " + count(replicas, "replica"), true
	}
}

func fleetsOf(state admin.BackendDrains) string {
	names := make([]string, len(state.Drains))
	for i, d := range state.Drains {
		names[i] = d.Capability
	}
	return strings.Join(names, ", ")
}
