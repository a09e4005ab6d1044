package dnstest

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/capgate/capgate/internal/testkit/check"
)

// Server is a DNS server on loopback, over UDP and TCP. Names have a trailing dot.
type Server struct {
	Addr string        // ip:port
	TCP  chan struct{} // has a token after a query over TCP

	mu      sync.Mutex
	addrs   map[string][]string // host with a trailing dot → addresses, in the order of the answer
	records map[string][]Record
	fail    bool // SERVFAIL for all
}

// Start runs a server without records, until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	var udp net.PacketConn
	var tcp net.Listener
	for range 100 { // the port must be free for UDP and TCP
		var err error
		if tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		if udp, err = net.ListenPacket("udp", tcp.Addr().String()); err == nil {
			break
		}
		_ = tcp.Close()
	}
	s := &Server{Addr: tcp.Addr().String(), TCP: make(chan struct{}, 1), addrs: map[string][]string{},
		records: map[string][]Record{}}
	var all sync.WaitGroup
	all.Go(func() { s.serveUDP(udp) })
	all.Go(func() { s.serveTCP(tcp) })
	check.Cleanup(t, func() {
		_, _ = udp.Close(), tcp.Close()
		all.Wait()
	})
	return s
}

// Set sets the addresses of a host; none: it does not exist.
func (s *Server) Set(host string, addrs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addrs[host] = addrs
}

// SetSRV sets the SRV records of a name.
func (s *Server) SetSRV(name string, records ...Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[name] = records
}

// Fail makes every response SERVFAIL, or ends that.
func (s *Server) Fail(fail bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// Record is an SRV record.
type Record = dnsmessage.SRVResource

// SRV returns a record for SetSRV; the target has a trailing dot.
func SRV(priority, weight, port uint16, target string) Record {
	return Record{Priority: priority, Weight: weight, Port: port, Target: dnsmessage.MustNewName(target)}
}

func (s *Server) serveUDP(c net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		_, _ = c.WriteTo(s.answer(buf[:n], 1232), from)
	}
}

func (s *Server) serveTCP(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		var length [2]byte
		if _, err := io.ReadFull(c, length[:]); err == nil {
			query := make([]byte, binary.BigEndian.Uint16(length[:]))
			if _, err := io.ReadFull(c, query); err == nil {
				reply := s.answer(query, 65535)
				_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
				select {
				case s.TCP <- struct{}{}:
				default:
				}
			}
		}
		_ = c.Close()
	}
}

// answer returns the response to a query, truncated to most bytes.
func (s *Server) answer(query []byte, most int) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(query)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	name := strings.ToLower(q.Name.String())
	s.mu.Lock()
	defer s.mu.Unlock()
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: head.ID, Response: true, RecursionAvailable: true},
		Questions: []dnsmessage.Question{q}}
	switch {
	case s.fail:
		m.RCode = dnsmessage.RCodeServerFailure
	case len(s.addrs[name]) == 0 && len(s.records[name]) == 0:
		m.RCode = dnsmessage.RCodeNameError
	}
	rh := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}
	for _, a := range s.addrs[name] {
		ip := netip.MustParseAddr(a)
		switch {
		case m.RCode != 0:
		case ip.Is4() && q.Type == dnsmessage.TypeA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: rh, Body: &dnsmessage.AResource{A: ip.As4()}})
		case !ip.Is4() && q.Type == dnsmessage.TypeAAAA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: rh,
				Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}})
		}
	}
	for _, rec := range s.records[name] {
		if m.RCode == 0 && q.Type == dnsmessage.TypeSRV {
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: rh, Body: &rec})
		}
	}
	reply, err := m.Pack()
	if err == nil && len(reply) > most {
		m.Answers, m.Truncated = nil, true
		reply, err = m.Pack()
	}
	if err != nil {
		return nil
	}
	return reply
}
