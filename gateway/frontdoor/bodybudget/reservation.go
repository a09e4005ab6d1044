package bodybudget

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/internal/lib/fairshare"
)

const (
	anonymousLimit = 64 << 10        // bytes of a body that may be read before authentication
	step           = 64 << 10        // growth of a reservation for a body of unknown length, in bytes
	drainTimeout   = 5 * time.Second // read deadline after a refusal over HTTP/1.1
)

// Owner is the client that sends a body.
type Owner interface {
	// Account returns the tenant that is charged for the body, Unknown before authentication, and the client address.
	// Requests without a tenant, or of Unknown, are charged by address.
	Account() (tenant, from string)
	// Authenticate authenticates the client, unless it already was. After an error nothing more is read.
	Authenticate(context.Context) error
	// Admit decides whether the body of an authenticated client may be read. length is the announced length; negative
	// means unknown.
	Admit(length int64) error
	// Charge counts the work of n more bytes of the body.
	Charge(n int64)
	// Exceeded returns the error for a body that exceeds the budget after a number of bytes.
	Exceeded(read int64) error
	// Reserved returns memory for the Reservation of the request, in the zero state.
	Reserved() *Reservation
}

// Reservation is the reserved memory of one request body. It must be used by one goroutine. A nil Reservation has no
// limit.
type Reservation struct {
	budget        *Budget
	owner         Owner
	w             http.ResponseWriter
	r             *http.Request
	authenticated bool
	admitted      bool
	tenant        string
	account       *fairshare.Account // account of the held bytes
	read          int64              // bytes read and still buffered
	total         int64              // total bytes read
	charged       int64              // charged bytes of total, or of the announced length
	min           int64              // bytes that stay reserved to the end
	held          int64
	first         reader // result of Reader
}

type reservationKey struct{}

// Handler adds a Reservation to the requests of next, and releases it after the response.
func (p *Budget) Handler(ownerOf func(*http.Request) Owner, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		owner := ownerOf(r)
		h := owner.Reserved()
		h.budget, h.owner, h.w, h.r = p, owner, w, r
		h.selectAccount()
		defer func() { h.account.Release(h.held) }()
		next.ServeHTTP(w, request.With(r, reservationKey{}, h))
	})
}

// FromContext returns the Reservation of the request of ctx.
func FromContext(ctx context.Context) *Reservation {
	h, _ := ctx.Value(reservationKey{}).(*Reservation)
	return h
}

// Reader returns a body that reserves memory for what it reads. expected is the expected length; less than 1 means
// unknown. Errors are those of body and of the Owner.
func (h *Reservation) Reader(body io.ReadCloser, expected int64) io.ReadCloser {
	if h == nil {
		return body
	}
	h.min = max(expected, 0)
	if h.first.ReadCloser != nil {
		return &reader{ReadCloser: body, reservation: h}
	}
	h.first = reader{ReadCloser: body, reservation: h}
	return &h.first
}

// SetBuffered records that only the last n bytes of the body are still buffered.
func (h *Reservation) SetBuffered(n int) {
	if h == nil {
		return
	}
	h.read = int64(n)
	h.release()
}

// Decode reserves n more bytes while a part of the body is decoded. The caller must call done afterwards. The error is
// that of the Owner.
func (h *Reservation) Decode(n int) (done func(), err error) {
	if h == nil || n <= 0 {
		return func() {}, nil
	}
	if err := h.reserve(h.held + int64(n)); err != nil {
		return nil, err
	}
	return h.release, nil
}

// Discard records that no byte of the body is buffered, whatever was expected.
func (h *Reservation) Discard() {
	if h != nil {
		h.min = 0
		h.SetBuffered(0)
	}
}

// release releases reserved bytes that are not buffered.
func (h *Reservation) release() {
	if held := max(h.read, h.min); held < h.held {
		h.account.Release(h.held - held)
		h.held = held
	}
}

type reader struct {
	io.ReadCloser
	reservation *Reservation
}

func (r *reader) Read(p []byte) (int, error) {
	h := r.reservation
	if h.held == 0 { // reserve before the first read, so that the client sends nothing in vain
		if err := h.reserve(cmp.Or(h.min, step)); err != nil {
			return 0, err
		}
	}
	n, err := r.ReadCloser.Read(p)
	h.total += int64(n)
	h.charge(h.total)
	if h.read += int64(n); h.read > h.held {
		if err := h.reserve(max(h.read, h.held+step)); err != nil {
			return 0, err
		}
	}
	if err != nil {
		h.release()
	}
	return n, err
}

// charge charges the owner for the work of a total number of bytes.
func (h *Reservation) charge(to int64) {
	if to > h.charged {
		h.owner.Charge(to - h.charged)
		h.charged = to
	}
}

// admit asks the owner to admit a long body. Its announced length is charged at once, so that later bodies see it.
func (h *Reservation) admit() error {
	if h.admitted {
		return nil
	}
	h.admitted = true
	if err := h.owner.Admit(h.r.ContentLength); err != nil {
		return h.fail(err)
	}
	h.charge(h.r.ContentLength)
	return nil
}

// reserve extends the reservation to a total number of bytes.
func (h *Reservation) reserve(to int64) error {
	if to > anonymousLimit && !h.authenticated {
		if err := h.authenticate(); err != nil {
			return err
		}
	}
	if to > anonymousLimit {
		if err := h.admit(); err != nil {
			return err
		}
	}
	if h.tryReserve(to) {
		return nil
	}
	if !h.authenticated { // unauthenticated clients hold too much, but the tenant may have room
		if err := h.authenticate(); err != nil {
			return err
		}
		if h.tryReserve(to) {
			return nil
		}
	}
	return h.fail(h.owner.Exceeded(h.read))
}

func (h *Reservation) tryReserve(to int64) bool {
	if !h.account.Reserve(to - h.held) {
		return false
	}
	h.held = to
	return true
}

// authenticate authenticates the owner, and moves the reservation to its account.
func (h *Reservation) authenticate() error {
	h.authenticated = true
	if err := h.owner.Authenticate(h.r.Context()); err != nil {
		return h.fail(err)
	}
	if tenant, _ := h.owner.Account(); tenant != h.tenant {
		h.account.Release(h.held)
		h.held = 0
		h.selectAccount()
	}
	return nil
}

// selectAccount selects the account of the owner as far as the owner is known.
func (h *Reservation) selectAccount() {
	var from string
	h.tenant, from = h.owner.Account()
	h.account = h.budget.account(h.tenant, from)
}

// fail ends the body with an error.
func (h *Reservation) fail(err error) error {
	Abandon(h.w, h.r)
	return err
}

// Abandon prepares the response to a request whose body is not read to its end. Over HTTP/1.1 the connection closes
// after the response: the server would otherwise read the rest before it writes the header, without a limit of time.
func Abandon(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || r.ContentLength == 0 {
		return
	}
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTimeout))
}
