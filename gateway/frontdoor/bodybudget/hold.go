package bodybudget

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/capgate/capgate/internal/lib/fairshare"
)

const (
	little   = 64 << 10        // bytes of a body that are read of anybody
	step     = 64 << 10        // in which a body is held whose length is not known
	farewell = 5 * time.Second // for what is not held any more of a body by HTTP/1.1
)

// Owner is whose a body is.
type Owner interface {
	// Place is the tenant for which the body counts, Unknown while that is not known, and the address it comes from.
	// Requests of no tenant, or of Unknown, count for their address.
	Place() (tenant, from string)
	// Ask finds out who it is where that is not known. The error says why nothing more is read of them.
	Ask(context.Context) error
	// TooMuch is the error for whom there is no room after so many bytes.
	TooMuch(read int64) error
}

// Hold is what one request holds. It is for one goroutine. nil holds nothing, and bounds nothing.
type Hold struct {
	pool    *Pool
	owner   Owner
	answer  http.ResponseWriter
	r       *http.Request
	asked   bool
	tenant  string
	charged *fairshare.Account // holds held
	read    int64              // bytes of what is held
	least   int64              // that are held to the end
	held    int64
}

type holdKey struct{}

// Handler has next's requests hold what they read by Reader until they are answered.
func (p *Pool) Handler(ownerOf func(*http.Request) Owner, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		h := &Hold{pool: p, owner: ownerOf(r), answer: w, r: r}
		h.place()
		defer func() { h.charged.Release(h.held) }()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), holdKey{}, h)))
	})
}

// Of is what the request holds that ctx is of.
func Of(ctx context.Context) *Hold {
	h, _ := ctx.Value(holdKey{}).(*Hold)
	return h
}

// Reader is a body that is read whole, of which so many bytes are expected, or fewer than one if nobody knows.
// Its errors are body's and those of the Owner.
func (h *Hold) Reader(body io.ReadCloser, expected int64) io.ReadCloser {
	if h == nil {
		return body
	}
	h.least = max(expected, 0)
	return &reader{ReadCloser: body, hold: h}
}

// Kept says that of what was read only the last n bytes are still there.
func (h *Hold) Kept(n int) {
	if h == nil {
		return
	}
	h.read = int64(n)
	h.shrink()
}

// shrink gives back what is held and was not read.
func (h *Hold) shrink() {
	if held := max(h.read, h.least); held < h.held {
		h.charged.Release(h.held - held)
		h.held = held
	}
}

type reader struct {
	io.ReadCloser
	hold *Hold
}

func (r *reader) Read(p []byte) (int, error) {
	h := r.hold
	if h.held == 0 { // nobody sends in vain
		if err := h.grow(cmp.Or(h.least, step)); err != nil {
			return 0, err
		}
	}
	n, err := r.ReadCloser.Read(p)
	if h.read += int64(n); h.read > h.held {
		if err := h.grow(max(h.read, h.held+step)); err != nil {
			return 0, err
		}
	}
	if err != nil {
		h.shrink()
	}
	return n, err
}

// grow holds so many bytes, or says why not.
func (h *Hold) grow(to int64) error {
	if to > little && !h.asked {
		if err := h.ask(); err != nil {
			return err
		}
	}
	if h.take(to) {
		return nil
	}
	if !h.asked { // others whom memory does not know hold too much: who they are may have room
		if err := h.ask(); err != nil {
			return err
		}
		if h.take(to) {
			return nil
		}
	}
	return h.leave(h.owner.TooMuch(h.read))
}

func (h *Hold) take(to int64) bool {
	if !h.charged.Reserve(to - h.held) {
		return false
	}
	h.held = to
	return true
}

// ask finds out whose the body is. What was held is given back, to be held by them.
func (h *Hold) ask() error {
	h.asked = true
	if err := h.owner.Ask(h.r.Context()); err != nil {
		return h.leave(err)
	}
	if tenant, _ := h.owner.Place(); tenant != h.tenant {
		h.charged.Release(h.held)
		h.held = 0
		h.place()
	}
	return nil
}

// place has the body count for its owner, as far as that is known.
func (h *Hold) place() {
	var from string
	h.tenant, from = h.owner.Place()
	h.charged = h.pool.account(h.tenant, from)
}

// leave ends with an error. HTTP/1.1 would read on before it answers, if it were not told that the connection ends.
func (h *Hold) leave(err error) error {
	if h.r.ProtoMajor == 1 {
		h.answer.Header().Set("Connection", "close")
		_ = http.NewResponseController(h.answer).SetReadDeadline(time.Now().Add(farewell))
	}
	return err
}
