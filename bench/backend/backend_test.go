package backend_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/bench/backend"
	"github.com/capgate/capgate/bench/grpcproxy"
	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// dial runs a backend until the end of the test and connects grpc-go to it.
func dial(t *testing.T) *grpc.ClientConn {
	t.Helper()
	b, err := backend.New(backend.Config{})
	check.Must(t, err)
	var stop atomic.Bool
	done := make(chan error, 1)
	go func() { done <- b.Serve(stop.Load) }()
	conn, err := clienttest.NewConn(b.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(grpcproxy.Codec{}), grpc.MaxCallRecvMsgSize(32<<20)))
	check.Must(t, err)
	t.Cleanup(func() {
		_ = conn.Close()
		stop.Store(true)
		if err := check.Received(t, done, "Serve to return"); err != nil {
			t.Error(err)
		}
	})
	return conn
}

// raw strips the gRPC prefix from a message.
func raw(prefixed []byte) *mem.BufferSlice {
	return &mem.BufferSlice{mem.SliceBuffer(prefixed[5:])}
}

func request(w h2.Work, size int) []byte { return h2.InvokeRequest(w, "weather", "s", size) }

// call sends messages and returns the sizes of the responses.
func call(ctx context.Context, conn *grpc.ClientConn, path string, messages ...[]byte) ([]int, error) {
	st, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, path)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if err := st.SendMsg(raw(m)); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	if err := st.CloseSend(); err != nil {
		return nil, err
	}
	var sizes []int
	for {
		var m mem.BufferSlice
		if err := st.RecvMsg(&m); err != nil {
			if errors.Is(err, io.EOF) {
				return sizes, nil
			}
			return sizes, err
		}
		sizes = append(sizes, m.Len())
		m.Free()
	}
}

func TestAnswersGRPCGo(t *testing.T) {
	t.Parallel()
	chunk := len(h2.InvokeChunk(100, false)) - 5
	file := len(h2.ArtifactChunk(256<<10, false)) - 5
	tests := map[string]struct {
		path     string
		messages [][]byte
		count    int // messages in the response
		size     int // of the first, in bytes
		code     codes.Code
	}{
		"unary": {h2.PathInvoke, [][]byte{request(h2.Work{Kind: h2.ReplyWork, Count: 1, Size: 1024}, 1024)}, 1,
			len(h2.InvokeResponse(1024)) - 5, codes.OK},
		"large": {h2.PathInvoke, [][]byte{request(h2.Work{Kind: h2.ReplyWork, Count: 1, Size: 4 << 20}, 4<<20)}, 1,
			len(h2.InvokeResponse(4<<20)) - 5, codes.OK},
		"chunks": {h2.PathStream, [][]byte{request(h2.Work{Kind: h2.ChunksWork, Count: 5000, Size: 100}, 0)}, 5000,
			chunk, codes.OK},
		"download": {h2.PathDownload, [][]byte{h2.DownloadRequest(h2.Work{Kind: h2.ArtifactWork, Count: 12,
			Size: 256 << 10})}, 12, file, codes.OK},
		"upload": {h2.PathUpload, [][]byte{h2.UploadChunk(256<<10, true), h2.UploadChunk(256<<10, false),
			h2.UploadChunk(1, false)}, 1,
			len(h2.UploadReply()) - 5, codes.OK},
		"health":  {h2.PathHealth, [][]byte{make([]byte, 5)}, 1, 2, codes.OK},
		"unknown": {"/other.Service/Method", [][]byte{make([]byte, 5)}, 0, 0, codes.Unimplemented},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t)
			for range 3 { // header fields are indexed from the second call on
				ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
				defer cancel()
				sizes, err := call(ctx, conn, tt.path, tt.messages...)
				if status.Code(err) != tt.code {
					t.Fatalf("status %v, want %v", err, tt.code)
				}
				if len(sizes) != tt.count || len(sizes) > 0 && sizes[0] != tt.size {
					t.Fatalf("%d messages, the first of %v bytes; want %d of %d", len(sizes),
						sizes[:min(1, len(sizes))], tt.count, tt.size)
				}
			}
		})
	}
}

// TestPacedEndsWithItsClient: a paced stream continues until its client leaves. The next stream then takes its place.
func TestPacedEndsWithItsClient(t *testing.T) {
	t.Parallel()
	conn := dial(t)
	for range 3 {
		ctx, leave := context.WithCancel(t.Context())
		st, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, h2.PathStream)
		check.Must(t, err)
		check.Must(t, st.SendMsg(raw(request(h2.Work{Kind: h2.PacedWork, Count: 1000, Size: 10}, 0))))
		check.Must(t, st.CloseSend())
		for i := range 10 {
			var m mem.BufferSlice
			if err := st.RecvMsg(&m); err != nil {
				t.Fatalf("after %d messages: %v", i, err)
			}
			m.Free()
		}
		leave()
	}
	if sizes, err := call(t.Context(), conn, h2.PathHealth, make([]byte, 5)); err != nil || len(sizes) != 1 {
		t.Errorf("a call after streams that were left: %v, %v", sizes, err)
	}
}

// TestHeaderTableTurnsOver: thousands of calls with different deadlines evict entries of the header table.
func TestHeaderTableTurnsOver(t *testing.T) {
	t.Parallel()
	conn := dial(t)
	for i := range 1000 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+time.Duration(i)*time.Millisecond)
		sizes, err := call(ctx, conn, h2.PathInvoke, request(h2.Work{Kind: h2.ReplyWork, Count: 1, Size: 10}, 10))
		cancel()
		if err != nil || len(sizes) != 1 {
			t.Fatalf("call %d: %v; sizes %+v", i, err, sizes)
		}
	}
}
