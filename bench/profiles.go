package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/capgate/capgate/bench/load"
	"github.com/capgate/capgate/bench/peers"
)

// profiling is a kind of call under which capgate is profiled.
type profiling struct {
	name string
	cfg  load.Config
}

// profilings returns the calls of the chosen scenarios under which a peer is profiled: only gRPC for the peers with
// everything on, and over TLS.
func profilings(o options, s peers.Spec) (all []profiling) {
	for _, of := range o.scenarios {
		switch of.name {
		case "unary-saturated", "unary-paced", "unary-headers", "chunks-paced", "bursts", "unary-tls":
			if (of.door == tlsDoor) == s.TLS {
				all = append(all, profiling{of.name, of.cfg})
			}
		}
	}
	if s.On || s.TLS {
		return all
	}
	for _, of := range o.scenarios {
		if of.kind != "" && of.by == "" {
			all = append(all, profiling{of.name, of.load(s.Name)})
		}
	}
	return all
}

// profiles records CPU profiles of capgate, with its defaults and with everything on, in one file for each kind of
// call.
func (b *bench) profiles(ctx context.Context) (string, error) {
	if err := os.MkdirAll(b.opts.profiles, 0o755); err != nil {
		return "", err
	}
	written := 0
	plain, on := peers.CapgateSpec(b.opts.capgate), peers.CapgateOn(b.opts.capgate)
	for _, s := range []peers.Spec{plain, on, plain.OverTLS(), on.OverTLS()} {
		kinds := profilings(b.opts, s)
		if len(kinds) == 0 {
			continue
		}
		p, err := b.startPeer(ctx, s, b.env)
		if err != nil {
			return "", err
		}
		for _, kind := range kinds {
			written++
			to := filepath.Join(b.opts.profiles, fmt.Sprintf("%02d-%s-%s.pprof", written, s.Name, kind.name))
			if err := b.profile(ctx, p, kind.cfg, to); err != nil {
				return "", fmt.Errorf("%s of %s: %w", kind.name, s.Name, err)
			}
		}
		b.stopPeer(p)
	}
	return fmt.Sprintf("%d profiles are in %s\n", written, b.opts.profiles), nil
}

// profile records a CPU profile of a peer during a window of calls.
func (b *bench) profile(ctx context.Context, p *peers.Peer, cfg load.Config, to string) error {
	const spare = 300 * time.Millisecond // the calls outlast the profile
	cfg.Warm, cfg.Window = b.opts.warm, b.opts.window+spare
	l, err := b.startLoad(ctx, p, cfg)
	if err != nil {
		return err
	}
	pause(ctx, b.opts.warm)
	err = fetchProfile(ctx, p, "profile", b.opts.window, to)
	res, failed := l.wait()
	switch {
	case err != nil:
		return err
	case failed != nil:
		return failed
	case res.Errors > 0:
		return fmt.Errorf("%d calls failed: %s", res.Errors, res.Problem)
	case res.Total == 0 && res.Bytes == 0:
		return fmt.Errorf("no call ended in %v", cfg.Window)
	}
	fmt.Fprintf(os.Stderr, "%s  %d calls  %v CPU\n", filepath.Base(to), res.Total, res.ProxyCPU.Round(time.Millisecond))
	return nil
}

// fetchProfile writes a profile or a trace of a peer to a file. It covers the next seconds, rounded to whole ones.
func fetchProfile(ctx context.Context, p *peers.Peer, kind string, window time.Duration, to string) error {
	ctx, cancel := context.WithTimeout(ctx, window+30*time.Second)
	defer cancel()
	seconds := int(max(window, time.Second) / time.Second)
	url := fmt.Sprintf("http://%s/debug/pprof/%s?seconds=%d", p.Admin, kind, seconds)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %.200s", url, resp.Status, content)
	}
	return os.WriteFile(to, content, 0o600)
}
