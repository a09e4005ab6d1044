package bodybudget_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/internal/lib/fairshare"
)

// owner is the owner of a body, unknown before a lookup.
type owner struct {
	tenant, is string // at first, and after the lookup
	from       string
	asked      int
	charged    int64
	nobody     bool
	busy       bool // has more to do than its share
}

var (
	errNobody  = errors.New("who is that?")
	errBusy    = errors.New("too busy")
	errTooMuch = errors.New("too much")
)

func (o *owner) Account() (tenant, from string) { return o.tenant, o.from }

func (o *owner) Authenticate(context.Context) error {
	o.asked++
	if o.nobody {
		return errNobody
	}
	o.tenant = o.is
	return nil
}

func (o *owner) Admit(int64) error {
	if o.busy {
		return errBusy
	}
	return nil
}

func (o *owner) Charge(n int64) { o.charged += n }

func (o *owner) Exceeded(int64) error { return errTooMuch }

func (*owner) Reserved() *bodybudget.Reservation { return new(bodybudget.Reservation) }

const kib = 1 << 10

func newPool(most int64) *bodybudget.Budget { return bodybudget.New(fairshare.New("bodies", most)) }

// send reads a request's body to its end and returns the error; then it calls within while the body is reserved.
func send(pool *bodybudget.Budget, who *owner, size, expected int64, within func(*bodybudget.Reservation)) (err error) {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", int(size))))
	pool.Handler(func(*http.Request) bodybudget.Owner { return who },
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			hold := bodybudget.FromContext(r.Context())
			var n int64
			n, err = io.Copy(io.Discard, hold.Reader(r.Body, expected))
			if err == nil && n != size {
				err = io.ErrUnexpectedEOF
			}
			if within != nil {
				within(hold)
			}
		})).ServeHTTP(httptest.NewRecorder(), r)
	return err
}

// No owner holds more than four times the free memory, and reservations are released.
func TestRoomForOthers(t *testing.T) {
	t.Parallel()
	for _, length := range []int64{-1, 384 * kib} {
		pool, heavy, light := newPool(1000*kib), &owner{tenant: "heavy", is: "heavy"},
			&owner{tenant: "light", is: "light"}
		err := send(pool, heavy, 384*kib, length, func(*bodybudget.Reservation) {
			err := send(pool, heavy, 384*kib, length, func(*bodybudget.Reservation) {
				if err := send(pool, heavy, 384*kib, length, nil); !errors.Is(err, errTooMuch) {
					t.Errorf("what is too much: %v", err)
				}
				if err := send(pool, light, 100*kib, min(length, 100*kib), nil); err != nil {
					t.Errorf("another's: %v", err)
				}
			})
			if err != nil {
				t.Errorf("the second: %v", err)
			}
			if used := pool.Used(); used != 0.384 {
				t.Errorf("%v is held for the first", used)
			}
		})
		if err != nil || pool.Used() != 0 {
			t.Errorf("%v, and %v is held in the end", err, pool.Used())
		}
	}
}

// TestBodiesAreCharged: the work of a body is its owner's, whether its length was announced or not. A long one of an
// owner with more to do than its share is not read.
func TestBodiesAreCharged(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{10 * kib, 300 * kib} {
		who := &owner{tenant: "a", is: "a"}
		if err := send(newPool(1000*kib), who, size, -1, nil); err != nil || who.charged != size {
			t.Errorf("%v, %d bytes of %d are charged", err, who.charged, size)
		}
		who = &owner{tenant: "a", is: "a", busy: true}
		if err := send(newPool(1000*kib), who, size, size, nil); (size > 64*kib) != errors.Is(err, errBusy) ||
			err != nil && who.charged != 0 {
			t.Errorf("a body of %d bytes: %v, %d are charged", size, err, who.charged)
		}
	}
}

// An unknown owner is looked up for a long body, and if unknown owners hold too much.
func TestStrangersAreAsked(t *testing.T) {
	t.Parallel()
	pool := newPool(200 * kib)
	stranger := func() *owner { return &owner{tenant: "?", is: "known"} }
	who := stranger()
	err := send(pool, who, 64*kib, 64*kib, func(*bodybudget.Reservation) {
		again := stranger()
		err := send(pool, again, 64*kib, 64*kib, func(*bodybudget.Reservation) {
			third, nobody := stranger(), &owner{tenant: "?", nobody: true}
			if err := send(pool, third, 40*kib, 40*kib, nil); err != nil || third.asked != 1 {
				t.Errorf("when strangers hold too much: %v, asked %d times", err, third.asked)
			}
			if err := send(pool, nobody, 40*kib, 40*kib, nil); !errors.Is(err, errNobody) {
				t.Errorf("nobody, when strangers hold too much: %v", err)
			}
		})
		if err != nil || again.asked != 0 {
			t.Errorf("the second: %v, asked %d times", err, again.asked)
		}
	})
	if err != nil || who.asked != 0 {
		t.Errorf("a little: %v, asked %d times", err, who.asked)
	}
	for _, length := range []int64{-1, 65 * kib} {
		who, nobody := stranger(), &owner{tenant: "?", nobody: true}
		if err := send(pool, who, 65*kib, length, nil); err != nil || who.asked != 1 {
			t.Errorf("more than a little: %v, asked %d times", err, who.asked)
		}
		if err := send(pool, nobody, 65*kib, length, nil); !errors.Is(err, errNobody) {
			t.Errorf("more than a little of nobody: %v", err)
		}
	}
	if pool.Used() != 0 {
		t.Errorf("%v is held in the end", pool.Used())
	}
}

// TestAddressesLeaveRoom: if clients are distinguished by address, no address gets all the memory.
func TestAddressesLeaveRoom(t *testing.T) {
	t.Parallel()
	for _, tenant := range []string{"", bodybudget.Unknown} {
		pool := newPool(1000 * kib)
		at := func(from string) *owner { return &owner{tenant: tenant, is: tenant, from: from, nobody: tenant != ""} }
		var more func(*bodybudget.Reservation)
		used, most := -1.0, 0.0
		more = func(*bodybudget.Reservation) {
			if most = pool.Used(); most > used {
				used = most
				_ = send(pool, at("a"), 10*kib, 10*kib, more)
				return
			}
			if err := send(pool, at("b"), 10*kib, 10*kib, nil); err != nil {
				t.Errorf("%q: another address: %v", tenant, err)
			}
			if err := send(pool, &owner{tenant: "known", is: "known"}, 64*kib, 64*kib, nil); err != nil {
				t.Errorf("%q: a tenant: %v", tenant, err)
			}
		}
		if more(nil); most == 0 || most > 0.64 || pool.Used() != 0 {
			t.Errorf("%q: one address held %v, and in the end %v is held", tenant, most, pool.Used())
		}
	}
}

// A stream holds its last message.
func TestStreamsHoldAMessage(t *testing.T) {
	t.Parallel()
	pool := newPool(200 * kib)
	err := send(pool, &owner{tenant: "a", is: "a"}, 60*kib, -1, func(hold *bodybudget.Reservation) {
		if hold.SetBuffered(20 * kib); pool.Used() != 0.1 {
			t.Errorf("%v is held", pool.Used())
		}
		hold.SetBuffered(0)
	})
	if err != nil || pool.Used() != 0 {
		t.Errorf("%v, and %v is held", err, pool.Used())
	}
}
