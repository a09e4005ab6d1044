package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/capgate/capgate/bench/files"
	"github.com/capgate/capgate/bench/peers"
	"github.com/capgate/capgate/bench/proc"
)

// transferred is the result of one transfer.
type transferred struct {
	took, cpu time.Duration // cpu is the gateway's processor time
	idle      int64         // memory of the gateway before the transfer, in bytes
	peak      int64         // highest memory of the gateway, in bytes
}

// files measures the transfer of a large file in each way, and prints the fastest round. Client, gateway and capability
// share the machine: nothing is pinned.
func (b *bench) files(ctx context.Context) (string, error) {
	addr, stop, err := files.Serve()
	if err != nil {
		return "", err
	}
	defer stop()
	env := b.env
	env.Backend, env.Cores, env.Capgate.Procs = addr, nil, runtime.NumCPU()
	var out strings.Builder
	fmt.Fprintf(&out, "%s. One file of %d MiB; the fastest of %d.\n\n", machine(), files.Size>>20, b.opts.rounds)
	out.WriteString("| | MiB/s | s CPU of the gateway a GiB | its memory before | at most |\n|---|---|---|---|---|\n")
	for _, way := range files.Ways() {
		var best transferred
		for range b.opts.rounds {
			t, err := b.transfer(ctx, env, way)
			if err != nil {
				return "", fmt.Errorf("%s: %w", way.Title, err)
			}
			if best.took == 0 || t.took < best.took {
				best = t
			}
		}
		fmt.Fprintf(&out, "| %s | %.0f | %.2f | %s | %s |\n", way.Title, files.Size/float64(1<<20)/best.took.Seconds(),
			best.cpu.Seconds()*float64(1<<30)/files.Size, mib(best.idle), mib(best.peak))
	}
	return out.String(), nil
}

// transfer moves the file through a newly started gateway.
func (b *bench) transfer(ctx context.Context, env peers.Env, way files.Way) (t transferred, err error) {
	p, err := peers.Start(ctx, peers.CapgateSpec(env.Capgate), env)
	if err != nil {
		return t, err
	}
	b.running = append(b.running, p)
	defer b.stopPeer(p)
	settle(ctx, p)
	if t.idle, err = proc.RSS(p.PID); err != nil {
		return t, err
	}
	before, err := proc.CPU(p.PID)
	if err != nil {
		return t, err
	}
	began := time.Now()
	if err = way.Move(ctx, p.Addr.String()); err != nil {
		return t, fmt.Errorf("%w; output of the gateway: %s", err, p.Said())
	}
	t.took = time.Since(began)
	after, err := proc.CPU(p.PID)
	if err != nil {
		return t, err
	}
	t.cpu = after - before
	t.peak, err = proc.PeakRSS(p.PID)
	return t, err
}
