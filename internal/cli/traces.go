package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/telemetry/tracing"
)

// flushTime is how long the process waits at its end for a collector to take the last spans.
const flushTime = 3 * time.Second

// newTracer makes what traces calls, if there is a collector.
func (p *process) newTracer(s *settings, metrics *telemetry.Metrics) (err error) {
	c := &s.cfg.Traces
	if c.Endpoint == "" {
		return nil
	}
	version, _, _ := buildInfo()
	p.tracer, err = tracing.New(tracing.Config{
		Endpoint: c.Endpoint, TLS: s.backends[c.TLS], Headers: s.traceHeaders, Sample: c.Sample, IgnoreParent: !c.Follow,
		Service: c.Service, Version: version, Instance: p.replica, Queue: c.Queue, Timeout: c.Timeout, Log: p.log,
	})
	if err != nil {
		return err
	}
	metrics.WatchTraces(p.tracer.Stats)
	return nil
}

// closeTracer sends what spans there still are.
func (p *process) closeTracer() {
	if p.tracer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	p.tracer.Close(ctx)
}

// readHeaders reads a file of headers, "name: value" a line. Its errors repeat nothing: values
// are secrets.
func readHeaders(file string, files fingerprints) (map[string]string, error) {
	text, err := files.read(file)
	if err != nil {
		return nil, err
	}
	headers, err := parseHeaders(text)
	if err != nil {
		return nil, wrongFile(file, "%s: %w", file, err)
	}
	return headers, nil
}

// parseHeaders reads headers: name: value, one a line.
func parseHeaders(text []byte) (map[string]string, error) {
	headers := map[string]string{}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(string(line), ":")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		if !ok || value == "" || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) ||
			strings.HasPrefix(name, "grpc-") {
			return nil, fmt.Errorf("line %d is not a header; want name: value", n)
		}
		headers[name] = value
	}
	return headers, nil
}
