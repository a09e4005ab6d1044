package dialect_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
)

// piece is an upload chunk of either dialect.
type piece struct {
	name, mime string
	data       []byte
}

// receipt is an upload's answer in either dialect.
type receipt struct {
	id, err string
	size    uint64 // live only
}

// uploads is a backend's behaviour: it reads pieces until io.EOF and answers.
type uploads func(ctx context.Context, next func() (piece, error)) (receipt, error)

type docBackend struct {
	docpb.UnimplementedCapabilityServer
	uploads
}

func (b docBackend) UploadInputArtifact(in grpc.ClientStreamingServer[docpb.UploadInputArtifactChunk,
	docpb.UploadInputArtifactResponse]) error {
	r, err := b.uploads(in.Context(), func() (piece, error) {
		c, err := in.Recv()
		return piece{c.GetFilename(), c.GetMimeType(), c.GetData()}, err
	})
	if err != nil {
		return err
	}
	return in.SendAndClose(&docpb.UploadInputArtifactResponse{CapabilityArtifactId: r.id, Error: r.err})
}

type liveBackend struct {
	livepb.UnimplementedCapabilityServer
	uploads
}

func (b liveBackend) UploadInputArtifact(in grpc.ClientStreamingServer[livepb.UploadInputArtifactChunk,
	livepb.UploadInputArtifactResponse]) error {
	r, err := b.uploads(in.Context(), func() (piece, error) {
		c, err := in.Recv()
		return piece{c.GetFilename(), c.GetMimeType(), c.GetData()}, err
	})
	if err != nil {
		return err
	}
	return in.SendAndClose(&livepb.UploadInputArtifactResponse{CapabilityArtifactId: r.id, SizeBytes: r.size,
		Error: r.err})
}

func refuse(_ context.Context, r *call.Refusal) error {
	kinds := map[call.Kind]codes.Code{call.InvalidArgument: codes.InvalidArgument, call.DataLoss: codes.DataLoss,
		call.ResourceExhausted: codes.ResourceExhausted, call.Internal: codes.Internal}
	return status.Error(kinds[r.Kind], r.Reason+": "+r.Message)
}

// translator returns a server that translates calls and makes them over conn.
func translator(conn grpc.ClientConnInterface) *grpc.Server {
	srv := grpc.NewServer(grpc.MaxRecvMsgSize(16<<20), grpc.ForceServerCodecV2(dialect.Codec()))
	dialect.Register(srv, conn, refuse)
	return srv
}

func serve(t testing.TB, srv *grpc.Server) *grpc.ClientConn {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(ln); err != nil {
			t.Error(err)
		}
	}()
	conn, err := clienttest.NewConn(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.Must(t, err)
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		srv.Stop()
		check.Received(t, done, "the server to stop")
	})
	return conn
}

// chain returns a translator in front of a backend that speaks only the dialect that the
// client does not.
func chain(t *testing.T, from string, b uploads) *grpc.ClientConn {
	t.Helper()
	backend := grpc.NewServer(grpc.MaxRecvMsgSize(16 << 20))
	if from == "live" {
		docpb.RegisterCapabilityServer(backend, docBackend{uploads: b})
	} else {
		livepb.RegisterCapabilityServer(backend, liveBackend{uploads: b})
	}
	return serve(t, translator(serve(t, backend)))
}

// uploader is a client's upload in either dialect.
type uploader struct {
	grpc.ClientStream
	send  func(piece) error
	reply func() (receipt, error)
}

func open(ctx context.Context, t *testing.T, conn *grpc.ClientConn, from string, opts ...grpc.CallOption) uploader {
	t.Helper()
	up, err := tryOpen(ctx, conn, from, opts...)
	check.Must(t, err)
	return up
}

func tryOpen(ctx context.Context, conn *grpc.ClientConn, from string, opts ...grpc.CallOption) (uploader, error) {
	if from == "live" {
		s, err := livepb.NewCapabilityClient(conn).UploadInputArtifact(ctx, opts...)
		return uploader{s, func(p piece) error {
			return s.Send(&livepb.UploadInputArtifactChunk{Filename: p.name, MimeType: p.mime, Data: p.data})
		}, func() (receipt, error) {
			r := new(livepb.UploadInputArtifactResponse)
			err := s.RecvMsg(r)
			return receipt{r.GetCapabilityArtifactId(), r.GetError(), r.GetSizeBytes()}, err
		}}, err
	}
	s, err := docpb.NewCapabilityClient(conn).UploadInputArtifact(ctx, opts...)
	return uploader{s, func(p piece) error {
		return s.Send(&docpb.UploadInputArtifactChunk{Filename: p.name, MimeType: p.mime, Data: p.data})
	}, func() (receipt, error) {
		r := new(docpb.UploadInputArtifactResponse)
		err := s.RecvMsg(r)
		return receipt{r.GetCapabilityArtifactId(), r.GetError(), 0}, err
	}}, err
}

// bothWays runs a test for a live client with a doc backend and the reverse.
func bothWays(t *testing.T, f func(ctx context.Context, t *testing.T, from string)) {
	for _, from := range []string{"live", "doc"} {
		t.Run("from "+from, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
			defer cancel()
			f(ctx, t, from)
		})
	}
}

func TestUpload(t *testing.T) {
	t.Parallel()
	bothWays(t, func(ctx context.Context, t *testing.T, from string) {
		for _, size := range []int{0, 1, 5 << 20} {
			file := bytes.Repeat([]byte{0xff, 0, 'a'}, size/3+1)[:size]
			var got []piece
			conn := chain(t, from, func(_ context.Context, next func() (piece, error)) (receipt, error) {
				for {
					p, err := next()
					if errors.Is(err, io.EOF) {
						return receipt{id: "artifact-1", size: uint64(size)}, nil
					}
					if err != nil {
						return receipt{}, err
					}
					got = append(got, p)
				}
			})
			up := open(ctx, t, conn, from)
			sent := []piece{{"bericht ü.bin", "application/x-thing", file[:min(size, 256<<10)]}}
			for b := file[len(sent[0].data):]; len(b) > 0; b = b[min(len(b), 256<<10):] {
				sent = append(sent, piece{data: b[:min(len(b), 256<<10)]})
			}
			for _, p := range sent {
				check.Must(t, up.send(p))
			}
			check.Must(t, up.CloseSend())
			r, err := up.reply()
			want := receipt{id: "artifact-1"}
			if from == "live" {
				want.size = uint64(size)
			}
			if err != nil || r != want {
				t.Fatalf("%d bytes: got %+v, %v; want %+v", size, r, err, want)
			}
			if len(got) != len(sent) {
				t.Fatalf("%d bytes: %d chunks came, %d went", size, len(got), len(sent))
			}
			for i := range got {
				if got[i].name != sent[i].name || got[i].mime != sent[i].mime ||
					!bytes.Equal(got[i].data, sent[i].data) {
					t.Fatalf("%d bytes: chunk %d differs", size, i)
				}
			}
		}
	})
}

func TestUploadCarriesTheCall(t *testing.T) {
	t.Parallel()
	bothWays(t, func(ctx context.Context, t *testing.T, from string) {
		var md metadata.MD
		var left time.Duration
		conn := chain(t, from, func(ctx context.Context, next func() (piece, error)) (receipt, error) {
			md, _ = metadata.FromIncomingContext(ctx)
			if deadline, ok := ctx.Deadline(); ok {
				left = time.Until(deadline)
			}
			if err := grpc.SetHeader(ctx, metadata.Pairs("x-head", "h", "x-head-bin", "\x00\xff")); err != nil {
				return receipt{}, err
			}
			err := grpc.SetTrailer(ctx, metadata.Pairs("x-tail", "t"))
			return receipt{err: "no room"}, err
		})
		ctx = metadata.AppendToOutgoingContext(ctx, "x-capability-id", "weather", "authorization", "Bearer x",
			"x-twice", "1", "x-twice", "2", "x-raw-bin", "\x00\x01\xfe")
		up := open(ctx, t, conn, from, grpc.CallAuthority("weather.caps.example.com"), grpc.UseCompressor("gzip"))
		check.Must(t, up.CloseSend())
		if r, err := up.reply(); err != nil || r != (receipt{err: "no room"}) {
			t.Errorf("got %+v, %v", r, err)
		}
		for name, want := range map[string][]string{":authority": {"weather.caps.example.com"},
			"x-capability-id": {"weather"},
			"authorization":   {"Bearer x"}, "x-twice": {"1", "2"}, "x-raw-bin": {"\x00\x01\xfe"}} {
			if got := md.Get(name); len(got) != len(want) || got[0] != want[0] || got[len(got)-1] != want[len(want)-1] {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if left <= 0 || left > check.Patience {
			t.Errorf("the backend has %v left", left)
		}
		if h, err := up.Header(); err != nil || len(h.Get("x-head")) != 1 || h.Get("x-head-bin")[0] != "\x00\xff" {
			t.Errorf("header %v, %v", h, err)
		}
		if tr := up.Trailer(); len(tr.Get("x-tail")) != 1 {
			t.Errorf("trailer %v", tr)
		}
	})
}

func TestUploadStatusIsTheBackends(t *testing.T) {
	t.Parallel()
	bothWays(t, func(ctx context.Context, t *testing.T, from string) {
		want, err := status.New(codes.ResourceExhausted,
			"disk full ü%").WithDetails(&errdetails.ErrorInfo{Reason: "FULL",
			Domain: "d"})
		check.Must(t, err)
		conn := chain(t, from, func(ctx context.Context, next func() (piece, error)) (receipt, error) {
			if _, err := next(); err != nil {
				return receipt{}, err
			}
			if err := grpc.SetTrailer(ctx, metadata.Pairs("x-tail", "t")); err != nil {
				return receipt{}, err
			}
			return receipt{}, want.Err()
		})
		up := open(ctx, t, conn, from)
		check.Must(t, up.send(piece{data: []byte("x")}))
		_, err = up.reply() // without a CloseSend: the client is idle when the status arrives
		if got := status.Convert(err); !proto.Equal(got.Proto(), want.Proto()) {
			t.Errorf("got %v, want %v", got.Proto(), want.Proto())
		}
		if tr := up.Trailer(); len(tr.Get("x-tail")) != 1 {
			t.Errorf("trailer %v", tr)
		}
	})
}

func TestUploadCancel(t *testing.T) {
	t.Parallel()
	bothWays(t, func(ctx context.Context, t *testing.T, from string) {
		started, ended := make(chan struct{}), make(chan error, 1)
		conn := chain(t, from, func(ctx context.Context, next func() (piece, error)) (receipt, error) {
			if _, err := next(); err != nil {
				return receipt{}, err
			}
			close(started)
			_, err := next()
			ended <- err
			return receipt{}, err
		})
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		up := open(ctx, t, conn, from)
		check.Must(t, up.send(piece{data: []byte("x")}))
		check.Received(t, started, "the start of the upload")
		cancel()
		if err := check.Received(t, ended, "the end of the upload"); status.Code(err) != codes.Canceled {
			t.Errorf("the backend sees %v", err)
		}
		if _, err := up.reply(); status.Code(err) != codes.Canceled {
			t.Errorf("the client sees %v", err)
		}
	})
}

func TestUploadDeadline(t *testing.T) {
	t.Parallel()
	bothWays(t, func(ctx context.Context, t *testing.T, from string) {
		conn := chain(t, from, func(ctx context.Context, _ func() (piece, error)) (receipt, error) {
			<-ctx.Done()
			return receipt{}, ctx.Err()
		})
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		up, err := tryOpen(ctx, conn, from) // the time may be over before there is a connection
		if err == nil {
			_, err = up.reply()
		}
		if status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
	})
}

func TestUploadChunkTooLarge(t *testing.T) {
	t.Parallel()
	bothWays(t, func(ctx context.Context, t *testing.T, from string) {
		conn := chain(t, from, func(_ context.Context, next func() (piece, error)) (receipt, error) {
			_, err := next()
			return receipt{id: strconv.FormatBool(err == nil)}, err
		})
		up := open(ctx, t, conn, from)
		if err := up.send(piece{data: make([]byte, 16<<20)}); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if _, err := up.reply(); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("got %v", err)
		}
	})
}

func TestTranslatorDoesNothingElse(t *testing.T) {
	t.Parallel()
	conn := chain(t, "live", nil)
	_, err := livepb.NewCapabilityClient(conn).Invoke(t.Context(), &livepb.InvokeRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v", err)
	}
}
