package localgrpc_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"testing"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// answers is a relay.Handler that has a function answer every call.
type answers struct {
	served
	answer func(*relay.ServerStream) relay.Status
}

func (h answers) Headers(s *relay.Stream) { s.Serve(h.answer) }

// answered returns a connection to what answer says.
func answered(t *testing.T, answer func(*relay.ServerStream) relay.Status) *localgrpc.Conn {
	t.Helper()
	r := relay.New(relay.Config{}, answers{answer: answer}, http.NotFoundHandler())
	check.Cleanup(t, r.Close)
	return &localgrpc.Conn{Relay: r, MaxMessage: 1000}
}

func packed(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	check.Must(t, err)
	return b
}

func zipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(b)
	check.Must(t, errors.Join(err, w.Close()))
	return out.Bytes()
}

// TestAnswersOfOneMessage: the one message of an answer is good only with the status OK behind it, and nothing
// between.
func TestAnswersOfOneMessage(t *testing.T) {
	t.Parallel()
	long := zipped(t, packed(t, payload(2000)))
	for name, test := range map[string]struct {
		messages []relay.Message
		status   relay.Status
		code     codes.Code
	}{
		"one":               {make([]relay.Message, 1), relay.Status{}, codes.OK},
		"one, and an error": {make([]relay.Message, 1), relay.Status{Code: uint32(codes.Aborted)}, codes.Aborted},
		"two":               {make([]relay.Message, 2), relay.Status{}, codes.Internal},
		"none":              {nil, relay.Status{}, codes.Internal},
		"details that say it is OK": {nil, relay.Status{Code: uint32(codes.Aborted), Details: packed(t, &spb.Status{})},
			codes.Aborted},
		"details of another error": {nil, relay.Status{Code: uint32(codes.Aborted),
			Details: packed(t, &spb.Status{Code: int32(codes.Unavailable)})}, codes.Aborted},
		"details that are none": {nil, relay.Status{Code: uint32(codes.Aborted), Details: []byte{0xff}}, codes.Aborted},
		"one that is longer unpacked": {[]relay.Message{{Data: long, Compressed: true}}, relay.Status{},
			codes.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := answered(t, func(s *relay.ServerStream) relay.Status {
				err := s.SendHeader(relay.Field{Name: "grpc-encoding", Value: "gzip"})
				for _, m := range test.messages {
					err = errors.Join(err, s.Send(m))
				}
				if err != nil && s.Context().Err() == nil { // else the caller has had enough
					t.Error(err)
				}
				return test.status
			})
			err := conn.Invoke(patient(t), "/t.T/Get", &testgrpc.Empty{}, new(testgrpc.Payload))
			if status.Code(err) != test.code {
				t.Errorf("Invoke: %v, not %v", err, test.code)
			}
			s, err := conn.NewStream(patient(t), &grpc.StreamDesc{ClientStreams: true}, "/t.T/Get")
			check.Must(t, err)
			err = s.RecvMsg(new(testgrpc.Payload))
			if errors.Is(err, io.EOF) && name == "none" { // which generated code makes INTERNAL
				return
			}
			if status.Code(err) != test.code {
				t.Errorf("a stream: %v, not %v", err, test.code)
			}
		})
	}
}

// TestCompressedMessages: a message is read up to the maximum length, and no further.
func TestCompressedMessages(t *testing.T) {
	t.Parallel()
	const most = 1000
	conn := within(t, localgrpc.NewBytesServer(func(_ any, s grpc.ServerStream) error {
		var b []byte
		if err := s.RecvMsg(&b); err != nil {
			return err
		}
		return s.SendMsg(&b)
	}, most))
	bomb := zipped(t, make([]byte, 1<<20))
	for name, test := range map[string]struct {
		encoding string
		data     []byte
		code     codes.Code
	}{
		"as long as it may be":        {"gzip", zipped(t, make([]byte, most)), codes.OK},
		"a byte longer":               {"gzip", zipped(t, make([]byte, most+1)), codes.ResourceExhausted},
		"far longer, and broken then": {"gzip", bomb[:len(bomb)/2], codes.ResourceExhausted},
		"broken":                      {"gzip", bomb[:4], codes.InvalidArgument},
		"two members": {"gzip", append(zipped(t, make([]byte, most)), zipped(t, nil)...),
			codes.InvalidArgument},
		"unknown": {"lzma", bomb, codes.Unimplemented},
	} {
		s, err := conn.Relay.Open(patient(t), relay.Request{Path: "/t.T/Echo",
			Header: []relay.Field{{Name: "grpc-encoding", Value: test.encoding}}})
		check.Must(t, err)
		check.Must(t, s.Send(relay.Message{Data: test.data, Compressed: true}))
		s.CloseSend()
		m, err := s.Recv(nil)
		if err == nil {
			_, err = s.Recv(nil)
		}
		if got := s.Status(); !errors.Is(err, io.EOF) || got.Code != uint32(test.code) ||
			test.code == codes.OK && len(m.Data) != most {
			t.Errorf("%s: %d bytes, %+v, %v", name, len(m.Data), got, err)
		}
	}
}

// account is a relay.Account that has limit bytes, and counts the most that were reserved.
type account struct{ limit, held int64 }

func (a *account) Reserve(n int64) bool {
	if a.held+n > a.limit {
		return false
	}
	a.held += n
	return true
}

func (a *account) Release(n int64) { a.held -= n }

// TestCompressedResponsesAreCharged: a response is charged with its decompressed size, before it has it.
func TestCompressedResponsesAreCharged(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	small := zipped(t, make([]byte, size))
	conn := answered(t, func(s *relay.ServerStream) relay.Status {
		if s.SendHeader(relay.Field{Name: "grpc-encoding", Value: "gzip"}) == nil {
			_ = s.Send(relay.Message{Data: small, Compressed: true}) // an error means that the caller has left
		}
		return relay.Status{}
	})
	for _, a := range []*account{{limit: 16 * size}, {limit: size / 2}} {
		s, err := conn.Open(patient(t), relay.Request{Path: "/t.T/Get", Hold: a})
		check.Must(t, err)
		msg, err := s.Receive(nil)
		s.Cancel()
		if a.limit > size && (err != nil || len(msg) != size || a.held < size) {
			t.Errorf("%d bytes, of which %d are charged, %v", len(msg), a.held, err)
		}
		if a.limit < size && status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%d bytes with room for %d: %v", len(msg), a.limit, err)
		}
	}
	r := &relay.Response{Header: []relay.Field{{Name: "grpc-encoding", Value: "gzip"}}, Message: small,
		Compressed: true}
	full := errors.New("full")
	_, err := localgrpc.Message(r, size, func(n int) error {
		if n > size/2 {
			return full
		}
		return nil
	})
	if !errors.Is(err, full) {
		t.Errorf("a unary response without room: %v", err)
	}
}

// TestSendAfterTheEnd: a client that sends after the call's handler has returned gets an error, and does not block.
func TestSendAfterTheEnd(t *testing.T) {
	t.Parallel()
	returned, late := make(chan struct{}), make(chan error, 1)
	conn := within(t, &localgrpc.Server{Unknown: func(_ any, s grpc.ServerStream) error {
		go func() {
			<-returned
			late <- s.SendMsg(&testgrpc.Empty{})
		}()
		return status.Error(codes.Aborted, "enough")
	}})
	err := conn.Invoke(patient(t), "/t.T/Leave", &testgrpc.Empty{}, new(testgrpc.Empty))
	if status.Code(err) != codes.Aborted {
		t.Error(err)
	}
	close(returned)
	if err := check.Received(t, late, "the end of a late SendMsg"); err == nil {
		t.Error("a message was taken that nobody gets")
	}
}

// TestResult: a result counts only without an error of the tool beside it, and the last of two.
func TestResult(t *testing.T) {
	t.Parallel()
	reply := func(result, toolError string) []byte {
		return packed(t, &docpb.InvokeResponse{ResultJson: []byte(result), Error: toolError})
	}
	for name, test := range map[string]struct {
		response          relay.Response
		result, toolError string
		code              codes.Code
	}{
		"a result":      {response: relay.Response{Message: reply("1", "")}, result: "1"},
		"and an error":  {response: relay.Response{Message: reply("1", "no")}, result: "1", toolError: "no"},
		"an error":      {response: relay.Response{Message: reply("", "no")}, toolError: "no"},
		"two results":   {response: relay.Response{Message: append(reply("1", ""), reply("2", "")...)}, result: "2"},
		"cut off":       {response: relay.Response{Message: reply("1", "")[:2]}, code: codes.Internal},
		"compressed":    {response: relay.Response{Message: reply("1", ""), Compressed: true}, code: codes.Internal},
		"a failed call": {response: relay.Response{Status: relay.Status{Code: 10}}, code: codes.Aborted},
	} {
		result, toolError, err := localgrpc.Result(&test.response)
		if string(result) != test.result || toolError != test.toolError || status.Code(err) != test.code {
			t.Errorf("%s: %q, %q, %v", name, result, toolError, err)
		}
	}
}
