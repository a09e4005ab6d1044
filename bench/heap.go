package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/bench/peers"
)

// heap counts the allocations of a Go process. After since, it counts those per request.
type heap struct {
	objects, bytes float64
	inUse          float64 // bytes of live objects
	known          bool
}

func (h heap) since(before heap, requests float64) heap {
	if !h.known || !before.known || requests == 0 {
		return heap{}
	}
	objects, bytes := h.objects-before.objects, h.bytes-before.bytes
	return heap{objects: objects / requests, bytes: bytes / requests, known: true}
}

// String returns the text of a table cell.
func (h heap) String() string {
	if !h.known {
		return "–"
	}
	return fmt.Sprintf("%.1f, %.1f KiB", h.objects, h.bytes/1024)
}

// heapOf reads the metrics of a process that serves them.
func heapOf(ctx context.Context, p *peers.Peer) (h heap) {
	if p.Admin == (netip.AddrPort{}) {
		return h
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/metrics", p.Admin), nil)
	if err != nil {
		return h
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: metrics of %s: %v\n", p.Spec.Name, err)
		return h
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
		case name == "go_memstats_mallocs_total":
			h.objects = n
		case name == "go_memstats_alloc_bytes_total":
			h.bytes = n
		case name == "go_memstats_heap_alloc_bytes":
			h.inUse = n
		}
	}
	h.known = lines.Err() == nil && h.objects > 0
	return h
}
