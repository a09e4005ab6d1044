package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const drainHelp = `The command drains the backend at all replicas of the gateway, and waits until it has no calls in
flight. A draining backend gets no new calls, except those of sessions pinned to it, until capgate
undrain ends the drain. A drain survives a restart of the gateway.`

// drainPoll is the interval of requests for the remaining calls.
const drainPoll = 250 * time.Millisecond

// drainCommand is the command line of capgate drain and capgate undrain.
type drainCommand struct {
	port    *gatewayPort
	backend string
	request capgatepb.DrainBackendRequest
	timeout time.Duration
	output
}

// newDrainCommand returns the command capgate drain.
func newDrainCommand(std stdio) *cobra.Command {
	d := &drainCommand{output: output{stdio: std}}
	c := &cobra.Command{Use: "drain HOST:PORT", Short: "drain a backend without failing calls", Long: drainHelp}
	d.addTo(c)
	c.Flags().BoolVar(&d.request.Force, "force", false,
		"drain even the last backend of a fleet; its calls are then rejected")
	c.Flags().DurationVar(&d.timeout, "timeout", 2*time.Minute,
		"maximum `duration` to wait for calls to end; 0: do not wait")
	c.RunE = func(c *cobra.Command, args []string) error {
		if d.timeout < 0 {
			return usageError("--timeout must not be negative")
		}
		d.backend = args[0]
		return d.drain(c.Context())
	}
	return exits(c, "0 success; 1 the gateway rejected the request, or calls are left after --timeout (the\n"+
		"drain stays); 2 wrong command line; 3 "+gatewayAway+".")
}

// newUndrainCommand returns the command capgate undrain.
func newUndrainCommand(std stdio) *cobra.Command {
	d := &drainCommand{output: output{stdio: std}}
	c := &cobra.Command{Use: "undrain HOST:PORT", Short: "end the drain of a backend",
		Long: "The command ends the drain of the backend at all replicas of the gateway. " +
			"The backend gets\nnew calls again."}
	d.addTo(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		d.backend = args[0]
		return d.undrain(c.Context())
	}
	return exits(c, "0 success, also if the backend was not drained; 1 the gateway rejected the request;\n"+
		"2 wrong command line; 3 "+gatewayAway+".")
}

// addTo adds the flags that both commands have.
func (d *drainCommand) addTo(c *cobra.Command) {
	d.port = addAdmin(c)
	d.addFlags(c.Flags())
	c.Flags().StringVar(&d.request.Capability, "capability", "",
		"only in the fleet of the capability with this `name`; default all fleets with the backend")
}

func (d *drainCommand) path() string { return "/v1/backends/" + url.PathEscape(d.backend) }

func (d *drainCommand) undrain(ctx context.Context) error {
	state := new(capgatepb.BackendState)
	if err := d.port.do(ctx, http.MethodPost, d.path()+":undrain", &d.request, state); err != nil {
		return err
	}
	return d.record(whole{state}, func(w io.Writer) {
		if back := fleetsOf(state, true); len(back) > 0 {
			fmt.Fprintf(w, "%s is back in %s\n", d.backend, strings.Join(back, ", "))
		}
		if same := fleetsOf(state, false); len(same) > 0 {
			fmt.Fprintf(w, "%s was not drained in %s\n", d.backend, strings.Join(same, ", "))
		}
		if !state.GetShared() {
			fmt.Fprintln(w, "redis is unavailable: the other replicas will learn of it when it is back")
		}
	})
}

func (d *drainCommand) drain(ctx context.Context) error {
	state := new(capgatepb.BackendState)
	if err := d.port.do(ctx, http.MethodPost, d.path()+":drain", &d.request, state); err != nil {
		return err
	}
	if err := d.record(whole{state}, func(w io.Writer) {
		fleets := append(fleetsOf(state, true), fleetsOf(state, false)...)
		fmt.Fprintf(w, "%s gets no new calls in %s\n", d.backend, strings.Join(fleets, ", "))
	}); err != nil || d.timeout == 0 {
		return err
	}
	return d.await(ctx)
}

// await waits until no replica has calls left.
func (d *drainCommand) await(ctx context.Context) error {
	path := d.path()
	if d.request.GetCapability() != "" {
		path += "?capability=" + url.QueryEscape(d.request.GetCapability())
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	ticker := time.NewTicker(drainPoll)
	defer ticker.Stop()
	for told := "the calls in flight are unknown"; ; {
		state := new(capgatepb.BackendState)
		err := d.port.do(ctx, http.MethodGet, path, nil, state)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("the drain stays, but the calls in flight are unknown: %w", err)
		}
		if err == nil {
			left, over := leftOf(state)
			if over || left != told {
				if err := d.record(whole{state}, func(w io.Writer) { fmt.Fprintln(w, left) }); err != nil || over {
					return err
				}
				told = left
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return refused("not finished after %v: %s; the drain stays", d.timeout, told)
		}
	}
}

// leftOf describes the remaining calls of a drain, and reports whether it is over.
func leftOf(state *capgatepb.BackendState) (left string, over bool) {
	var calls, unheard, replicas int
	drained := true
	for _, d := range state.GetDrains() {
		calls += int(d.GetInFlight())
		unheard, replicas = max(unheard, int(d.GetUnheard())), max(replicas, int(d.GetReplicas()))
		drained = drained && d.GetDrained()
	}
	switch {
	case !drained:
		return "the drain has been ended", false
	case !state.GetShared():
		return "redis is unavailable: the other replicas will learn of it when it is back; " + count(calls, "call") +
			" in flight at this one", false
	case unheard > 0:
		return count(unheard, "replica") + " of " + fmt.Sprint(replicas) + " did not get the change yet", false
	case calls > 0:
		return count(calls, "call") + " in flight at " + count(replicas, "replica"), false
	default:
		return "no call is in flight there, at " + count(replicas, "replica"), true
	}
}

// fleetsOf returns the fleets in which the request changed the drain, or those in which it did not.
func fleetsOf(state *capgatepb.BackendState, changed bool) (names []string) {
	for _, d := range state.GetDrains() {
		if d.GetChanged() == changed {
			names = append(names, d.GetCapability())
		}
	}
	return names
}
