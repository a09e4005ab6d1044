package gateway

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/frontdoor/fairqueue"
)

// passages are the connections to our own relay, for calls that pass it twice. There are as many
// as the calls need, so that no tenant's can take all the streams that a connection may have.
type passages struct {
	dial func() (*grpc.ClientConn, error)
	most int // calls on one connection, before there is another

	mu  sync.Mutex
	all []*passage
}

// passage is one of them.
type passage struct {
	conn  *grpc.ClientConn
	calls int // under passages.mu
}

// newPassages makes them with a first connection.
func newPassages(maxStreams uint32, dial func() (*grpc.ClientConn, error)) (*passages, error) {
	if maxStreams == 0 {
		maxStreams = 1024 // relay.Config's own
	}
	conn, err := dial()
	if err != nil {
		return nil, err
	}
	return &passages{dial: dial, most: max(int(maxStreams/2), 1), all: []*passage{{conn: conn}}}, nil
}

// Invoke implements grpc.ClientConnInterface.
func (p *passages) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	fairqueue.CallStarted(ctx)
	through, err := p.enter()
	if err != nil {
		return err
	}
	defer p.leave(through)
	return through.conn.Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (p *passages) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	fairqueue.CallStarted(ctx)
	through, err := p.enter()
	if err != nil {
		return nil, err
	}
	leave := sync.OnceFunc(func() { p.leave(through) })
	s, err := through.conn.NewStream(ctx, desc, method, append(opts[:len(opts):len(opts)], grpc.OnFinish(func(error) { leave() }))...)
	if err != nil {
		leave()
	}
	return s, err
}

// enter finds a connection for one more call. The first that has room is taken, and who is not
// needed any more falls idle.
func (p *passages) enter() (*passage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, known := range p.all {
		if known.calls < p.most {
			known.calls++
			return known, nil
		}
	}
	conn, err := p.dial()
	if err != nil {
		return nil, err
	}
	p.all = append(p.all, &passage{conn: conn, calls: 1})
	return p.all[len(p.all)-1], nil
}

func (p *passages) leave(through *passage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	through.calls--
}

// close ends the connections, when no call comes any more.
func (p *passages) close() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, known := range p.all {
		err = errors.Join(err, known.conn.Close())
	}
	return err
}
