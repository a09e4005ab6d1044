package clienttest

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestSilence: a call to a server that does not answer ends with a description of the wait, and later calls end at
// once.
func TestSilence(t *testing.T) {
	t.Parallel()
	for what, call := range map[string]func(*testing.T, *grpc.ClientConn) error{
		"the answer": func(t *testing.T, conn *grpc.ClientConn) error {
			return conn.Invoke(t.Context(), "/t.T/Call", &emptypb.Empty{}, &emptypb.Empty{})
		},
		"the header": func(t *testing.T, conn *grpc.ClientConn) error {
			_, err := open(t, conn).Header()
			return err
		},
		"a message": func(t *testing.T, conn *grpc.ClientConn) error {
			return open(t, conn).RecvMsg(&emptypb.Empty{})
		},
		"the sending of a message": func(t *testing.T, conn *grpc.ClientConn) error {
			for s, text := open(t, conn), wrapperspb.String(strings.Repeat("x", 1<<16)); ; {
				if err := s.SendMsg(text); err != nil {
					return err
				}
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) {
				conn := serve(t, func(s grpc.ServerStream) error {
					<-s.Context().Done()
					return s.Context().Err()
				})
				begin := time.Now()
				err := call(t, conn)
				if took := time.Since(begin); took != Patience {
					t.Errorf("the call lasted %v, and not %v", took, Patience)
				}
				if want := "the test waited 2m0s for " + what + " of /t.T/Call"; status.Code(err) != codes.Canceled ||
					!strings.Contains(err.Error(), want) {
					t.Errorf("the error is %v, and not %s", err, want)
				}
				begin = time.Now()
				if err := call(t, conn); status.Code(err) != codes.Canceled || time.Since(begin) > 0 {
					t.Errorf("another call ended after %v with %v", time.Since(begin), err)
				}
			})
		})
	}
}

// TestManyMessages: a stream that lasts longer than the bound is not cut while messages arrive, and ends with its own
// status.
func TestManyMessages(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		s := open(t, serve(t, func(s grpc.ServerStream) error {
			for range 3 {
				<-time.After(Patience - time.Second)
				if err := s.SendMsg(&emptypb.Empty{}); err != nil {
					return err
				}
			}
			return status.Error(codes.Aborted, "it ends")
		}))
		for range 3 {
			check.Must(t, s.RecvMsg(&emptypb.Empty{}))
		}
		if err := s.RecvMsg(&emptypb.Empty{}); status.Code(err) != codes.Aborted {
			t.Errorf("the stream ended with %v", err)
		}
	})
}

func open(t *testing.T, conn *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	s, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/t.T/Call")
	if err != nil {
		return failed{err: err}
	}
	return s
}

// failed is a stream that could not be opened.
type failed struct {
	grpc.ClientStream
	err error
}

func (f failed) Header() (metadata.MD, error) { return nil, f.err }
func (f failed) SendMsg(any) error            { return f.err }
func (f failed) RecvMsg(any) error            { return f.err }

// serve returns a connection to a server that handles all calls with one function.
func serve(t *testing.T, handle func(grpc.ServerStream) error) *grpc.ClientConn {
	t.Helper()
	ln := bufconn.Listen(1 << 20)
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error { return handle(s) }))
	go func() { _ = server.Serve(ln) }()
	check.Cleanup(t, server.Stop)
	conn, err := NewConn("passthrough:///memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return ln.DialContext(ctx) }))
	check.Must(t, err)
	check.Cleanup(t, func() { _ = conn.Close() })
	return conn
}
