package files

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// body is a request's body, of which no more than so much is read, and which may not pause for
// longer than so.
type body struct {
	in      io.Reader
	control *http.ResponseController
	answer  http.ResponseWriter
	request *http.Request
	left    int64 // bytes that may come
	most    int64
	stall   time.Duration
	pause   *time.Timer // runs while the client is waited for

	mu      sync.Mutex
	over    bool // it has ended, or nobody reads on
	unread  bool // it broke off, or is too large
	stalled bool
	cut     bool // reading was ended from here
}

func newBody(w http.ResponseWriter, r *http.Request, most int64, stall time.Duration) *body {
	b := &body{in: r.Body, control: http.NewResponseController(w), answer: w, request: r, left: most, most: most, stall: stall}
	b.pause = time.AfterFunc(stall, recovery.Func("upload", func() { b.interrupt(true) }))
	b.pause.Stop()
	return b
}

// Read implements io.Reader. Its errors are Problems, but for io.EOF.
func (b *body) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	b.pause.Reset(b.stall)
	n, err := b.in.Read(p)
	b.pause.Stop()
	if b.left -= int64(n); b.left < 0 {
		n, err = 0, tooLarge(b.most)
	}
	if err == nil {
		return n, nil
	}
	return n, b.failed(err)
}

// failed is what an error of Read is called.
func (b *body) failed(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	problem := (*Problem)(nil)
	switch {
	case err == io.EOF:
		b.over = true
		return err
	case errors.As(err, &problem):
	case b.stalled:
		err = stalled()
	default:
		err = broken()
	}
	b.unread = true
	return err
}

// finish is the last that is done with the body, before the answer. Where nobody will read on, net/http is kept
// from doing it: the client would wait for the answer until it had sent more.
//
// A connection of which reading was ended takes no other request. net/http may have seen the body's end meanwhile
// and listen for the next request: the deadline in the past then ends the context of all that would follow.
func (b *body) finish(all bool) {
	b.pause.Stop()
	if !all || b.unread {
		b.end()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	if b.cut && b.request.ProtoMajor == 1 {
		b.answer.Header().Set("Connection", "close")
	}
}

// end lets no Read wait on, from any goroutine. The connection takes no other request after it,
// but where the body was over.
func (b *body) end() { b.interrupt(false) }

func (b *body) interrupt(stalled bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.over, b.stalled, b.cut = true, stalled, true
		_ = b.control.SetReadDeadline(time.Unix(1, 0)) // what cannot do that ends with the connection
	}
}
