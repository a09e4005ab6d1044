package gateway

import (
	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/internal/lib/metric"
	"github.com/capgate/capgate/internal/overload"
)

// Metrics implements metric.Source: connections, memory and load. Label values are bounded; callers cannot choose
// them.
func (g *Gateway) Metrics() *metric.Set {
	m := metric.New("capgate_")
	open := m.Add("upstream_connections", "Open connections to backends.")
	connections, memory, load := connectionMetrics(m), memoryMetrics(m), loadMetrics(m)
	m.Read = func(w metric.Writer) {
		w.Gauge(open, float64(g.directory.conns()))
		connections(w, g.relay.Rejections(), g.admin.Rejections())
		memory(w, g.handler.shares)
		load(w, g)
	}
	return m
}

func connectionMetrics(m *metric.Set) func(w metric.Writer, public, admin accept.Rejections) {
	refused := m.Add("connections_refused_total",
		"Client connections closed at once because of a limit: of their network, of networks without a "+
			"credential, of handshakes of their network, or of their owner's memory.", "reason")
	waiting := m.Add("connections_handshakes_waiting", "TLS handshakes that wait for a processor.")
	refusedAdmin := m.Add("admin_connections_refused_total",
		"Connections of the admin API closed because of a limit: of their network, of handshakes of their network, of "+
			"their owner's memory, or without a credential to make room for others (evicted).", "reason")
	return func(w metric.Writer, public, admin accept.Rejections) {
		w.Count(refused, public.Network, "network")
		w.Count(refused, public.Reserved, "reserved")
		w.Count(refused, public.Handshake, "handshake")
		w.Count(refused, public.Memory, "memory")
		w.Gauge(waiting, float64(public.Waiting))
		w.Count(refusedAdmin, admin.Network, "network")
		w.Count(refusedAdmin, admin.Handshake, "handshake")
		w.Count(refusedAdmin, admin.Memory, "memory")
		w.Count(refusedAdmin, admin.Evicted, "evicted")
	}
}

func memoryMetrics(m *metric.Set) func(w metric.Writer, all *shares) {
	used := m.Add("memory_bytes", "Bytes reserved by calls, requests and connections, by pool; memory is the total.",
		"pool")
	limit := m.Add("memory_limit_bytes", "Maximum bytes of a pool.", "pool")
	refused := m.Add("memory_refused_total",
		"Reservations that failed because a tenant, or an unauthenticated address, had used its share of a pool.",
		"pool")
	return func(w metric.Writer, all *shares) {
		for _, p := range all.pools() {
			w.Gauge(used, float64(p.Used()), p.Name())
			w.Gauge(limit, float64(p.Limit()), p.Name())
			w.Count(refused, p.Refused(), p.Name())
		}
	}
}

func loadMetrics(m *metric.Set) func(w metric.Writer, g *Gateway) {
	used := m.Add("overload", "Used fraction of the process's own limits. From 1 on, calls are rejected. The label of "+
		"is in_flight, memory, delay or bodies.", "of")
	return func(w metric.Writer, g *Gateway) {
		var of overload.Usage
		if g.cfg.Capacity.Overload != nil {
			of = g.cfg.Capacity.Overload.Usage()
		}
		w.Gauge(used, of.InFlight, "in_flight")
		w.Gauge(used, of.Memory, "memory")
		w.Gauge(used, of.Delay, "delay")
		w.Gauge(used, g.Bodies(), "bodies")
	}
}
