package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/bench/load"
	"github.com/capgate/capgate/bench/peers"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// state is a state of Redis during a measurement.
type state struct {
	title string
	rate  int // calls a second; 0 for none, saturated for as many as possible
	set   func(*redistest.Server)
}

const saturated = -1

// states lists the states in order. A state without an action leaves Redis as it is.
func states() []state {
	return []state{
		{title: "answers", rate: 0},
		{title: "answers", rate: 1000},
		{title: "answers", rate: 5000},
		{title: "answers", rate: saturated},
		{title: "takes 2 s for each command", rate: 5000, set: func(s *redistest.Server) { s.Delay(2 * time.Second) }},
		{title: "is silent", rate: 5000, set: func(s *redistest.Server) { s.Delay(0); s.BlackHole() }},
		{title: "is down", rate: 5000, set: func(s *redistest.Server) { s.Heal(); s.Kill() }},
		{title: "has been restarted, empty", rate: 5000, set: (*redistest.Server).Restart},
		{title: "is full", rate: 5000, set: (*redistest.Server).Fill},
	}
}

// redis measures a gateway in each state of its Redis: the load on Redis, and the effect on calls.
func (b *bench) redis(ctx context.Context) (string, error) {
	var servers redistest.Main
	defer servers.Close()
	server := redistest.Start(&servers)
	env := b.env
	env.Capgate.Args = append(env.Capgate.Args[:len(env.Capgate.Args):len(env.Capgate.Args)], "--redis", server.URL())
	p, err := b.startPeer(ctx, peers.CapgateSpec(env.Capgate), env)
	if err != nil {
		return "", err
	}
	defer b.stopPeer(p)
	var out strings.Builder
	fmt.Fprintf(&out, "%s, windows of %v. CPU is the gateway's.\n\n", machine(), b.opts.window)
	out.WriteString("| Redis | calls/s | failed | p50 / p99 | µs CPU a call | Redis commands/s | others busy |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, s := range states() {
		if s.set != nil {
			s.set(server)
		}
		res, commands, err := b.withRedis(ctx, p, s.rate)
		if err != nil {
			return "", fmt.Errorf("while Redis %s: %w", s.title, err)
		}
		cost := "–"
		if res.Calls > 0 {
			cost = number(micros(res.ProxyCPU) / float64(res.Calls))
		}
		fmt.Fprintf(&out, "| %s | %.0f | %d | %s | %s | %.2f | %s |\n", s.title, float64(res.Calls)/res.Seconds,
			res.Errors, latency(res), cost, commands, share(res.OtherCPU+res.Stolen, res.Seconds))
	}
	return out.String(), nil
}

// withRedis makes calls for a window, and returns the number of commands a second that Redis received meanwhile.
func (b *bench) withRedis(ctx context.Context, p *peers.Peer, rate int) (res load.Result, commands float64,
	err error) {
	before, err := sent(ctx, p)
	if err != nil {
		return res, 0, err
	}
	began := time.Now()
	if rate == 0 {
		pause(ctx, b.opts.window)
		res.Seconds = time.Since(began).Seconds()
	} else {
		cfg := load.Config{Mode: load.Open, Rate: rate, Method: load.Invoke, RequestSize: 1024, Conns: 8,
			Work: h2.Work{Kind: h2.ReplyWork, Count: 1, Size: 1024}, Warm: b.opts.warm, Window: b.opts.window}
		if rate == saturated {
			cfg.Mode, cfg.Rate, cfg.Streams = load.Closed, 0, inflight/8
		}
		if res, err = b.window(ctx, p, cfg); err != nil {
			return res, 0, err
		}
	}
	after, err := sent(ctx, p)
	return res, (after - before) / time.Since(began).Seconds(), err
}

// sent returns the number of commands that a gateway has sent to Redis, according to its metrics.
func sent(ctx context.Context, p *peers.Peer) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Admin.String()+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return 0, err
	}
	total := 0.0
	for _, m := range families["capgate_redis_commands_total"].GetMetric() {
		total += m.GetCounter().GetValue()
	}
	return total, nil
}
