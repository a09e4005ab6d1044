package relay_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// soon is an age that a connection reaches only after its handshake, even on a busy machine.
const soon = time.Second

// TestMaxAge: the client of an old connection gets both GOAWAYs. The connection ends when its calls have finished,
// however long they take.
func TestMaxAge(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(*relayed){
		"age":  func(*relayed) {},
		"move": func(w *relayed) { w.Move(0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := relay.Config{}
			if name == "age" {
				cfg.Age.Max = soon
			}
			w := newRelayed(t, cfg)
			c := rawClient(t, w.addr)
			check.Must(t, c.Write(rawhttp2.Headers(1, false, c.Block(request("/t.T/Echo")...)))) // the connection stays
			if name == "move" {
				check.Must(t, c.Sync()) // the connection is established
			}
			replace(w)
			f, err := c.Wait(isGoAway)
			check.Must(t, err)
			if last := lastStream(f); last != 1<<31-1 {
				t.Fatalf("the first GOAWAY disowns what is under way: the last stream is %d", last)
			}
			check.Must(t, c.Write(rawhttp2.Headers(3, false, c.Block(request("/t.T/Echo")...)),
				rawhttp2.Data(3, true, rawhttp2.Message([]byte("x")))))
			f, err = c.Wait(isGoAway) // sent once the PING is acknowledged
			check.Must(t, err)
			if last := lastStream(f); last != 3 {
				t.Errorf("the last GOAWAY takes the streams up to %d", last)
			}
			w.h.results(t, 1)
			check.Must(t, c.Write(rawhttp2.Data(1, true, rawhttp2.Message([]byte("late")))))
			if r, err := c.WaitResponse(1); err != nil || r.Reset {
				t.Errorf("a call of before: %v, %v", r, err)
			}
			check.Must(t, c.WaitClosed())
			for _, r := range w.h.results(t, 2) {
				if r.Code != 0 || r.Failure != relay.NoFailure {
					t.Errorf("%+v", r)
				}
			}
			other := rawClient(t, w.addr) // the relay accepts new connections
			check.Must(t, other.Sync())
		})
	}
}

// TestMaxAgeIdle: a connection without calls ends, too.
func TestMaxAgeIdle(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{Age: accept.Age{Max: soon}})
	c := rawClient(t, w.addr)
	f, err := c.Wait(isGoAway)
	check.Must(t, err)
	if last := lastStream(f); last != 1<<31-1 {
		t.Errorf("the last stream is %d", last)
	}
	f, err = c.Wait(isGoAway)
	check.Must(t, err)
	if last := lastStream(f); last != 0 {
		t.Errorf("the last stream is %d", last)
	}
	check.Must(t, c.WaitClosed())
}

// TestMaxAgeGrace: calls that are still running after the grace period end with the Handler's status, and the
// connection is closed.
func TestMaxAgeGrace(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{Age: accept.Age{Max: soon, Grace: soon}})
	began := time.Now()
	c := rawClient(t, w.addr)
	check.Must(t, c.Write(rawhttp2.Headers(1, false, c.Block(request("/t.T/Echo")...))))
	r, err := c.WaitResponse(1)
	if took := time.Since(began); took < soon*3/2 { // ages differ
		t.Errorf("the call ended after %v, before the grace was over", took)
	}
	if err != nil || r.Status() != "14" {
		t.Errorf("%v, %v", r, err)
	}
	check.Must(t, c.WaitClosed())
	for _, r := range w.h.results(t, 1) {
		if r.Failure != relay.Draining {
			t.Errorf("%+v", r)
		}
	}
}

// TestHTTP1ConnectionsEnd: a response over HTTP/1.1 ends its connection if the connection is old enough, or if the
// replica asks clients to leave. The decision is made when the response begins, not the request, however the handler
// writes it.
func TestHTTP1ConnectionsEnd(t *testing.T) {
	t.Parallel()
	var leaving atomic.Bool
	inside, proceed := make(chan struct{}), make(chan struct{})
	site := http.NewServeMux()
	site.HandleFunc("/write", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") })
	site.HandleFunc("/nothing", func(http.ResponseWriter, *http.Request) {})
	site.HandleFunc("/head", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	site.HandleFunc("/flush", func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
	})
	site.HandleFunc("/waits", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		inside <- struct{}{}
		<-proceed
	})
	_, always := serveRelay(t, relay.Config{Age: accept.Age{Leaving: leaving.Load}}, &forwarder{}, site)
	_, young := serveRelay(t, relay.Config{Age: accept.Age{Max: time.Hour}}, &forwarder{}, site)
	_, old := serveRelay(t, relay.Config{Age: accept.Age{Max: time.Nanosecond}}, &forwarder{}, site)
	ends := func(addr, path string) bool {
		resp, err := webClients(t, nil)["HTTP/1.1"].Get("http://" + addr + path)
		check.Must(t, err)
		check.Must(t, resp.Body.Close())
		return resp.Close
	}
	late := make(chan bool)
	go func() { late <- ends(always, "/waits") }()
	check.Received(t, inside, "the request")
	for _, path := range []string{"/write", "/nothing", "/head", "/flush"} {
		for addr, want := range map[string]bool{always: false, young: false, old: true} {
			if got := ends(addr, path); got != want {
				t.Errorf("%s: the connection ends: %t, want %t (old: %t)", path, got, want, addr == old)
			}
		}
	}
	leaving.Store(true)
	close(proceed)
	if !check.Received(t, late, "the response") {
		t.Error("a request of before keeps its connection")
	}
	for _, path := range []string{"/write", "/nothing", "/head", "/flush"} {
		if !ends(always, path) {
			t.Errorf("%s: the connection stays", path)
		}
	}
}

// TestAgesDiffer: clients that connected at the same time do not reconnect at the same time.
func TestAgesDiffer(t *testing.T) {
	t.Parallel()
	const age = 500 * time.Millisecond
	w := newRelayed(t, relay.Config{Age: accept.Age{Max: age}})
	ages := make(chan time.Duration, 30)
	for range cap(ages) {
		began := time.Now() // before the relay accepts the connection
		c := rawClient(t, w.addr)
		go func() {
			_, _ = c.WaitGoAway()
			ages <- time.Since(began)
		}()
	}
	least, most := time.Hour, time.Duration(0)
	for range cap(ages) {
		one := check.Received(t, ages, "the end of a connection")
		least, most = min(least, one), max(most, one)
	}
	if least < age*8/10 || most-least < age/20 {
		t.Errorf("the ages are from %v to %v", least, most)
	}
}
