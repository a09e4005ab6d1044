package difftest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// upload is a call with a response before the end of its request.
type upload struct {
	Path     string            `json:"path"`
	Metadata map[string]string `json:"metadata"`
	Size     int               `json:"size"` // of a message
	// number of messages without an end of the request; 0: one message, and the end
	Stream int `json:"stream"`
	want   codes.Code
	reason string
}

func (u *upload) String() string {
	return fmt.Sprintf("%s, %d messages of %d KiB, %s", u.Path, max(u.Stream, 1), u.Size>>10, u.reason)
}

// uploaded is the result of an upload at its client.
type uploaded struct {
	Code    codes.Code `json:"code"`
	Message string     `json:"message"`
	Details []byte     `json:"details"` // of the status: a google.rpc.Status
}

func (u *uploaded) reason() string {
	var s statuspb.Status
	if proto.Unmarshal(u.Details, &s) == nil {
		for _, d := range s.GetDetails() {
			var info errdetails.ErrorInfo
			if d.MessageIs(&info) && d.UnmarshalTo(&info) == nil {
				return info.GetReason()
			}
		}
	}
	return ""
}

// uploaders are clients of the gRPC implementations.
func uploaders(t *testing.T) []caller {
	t.Helper()
	return []caller{
		{"grpcio", func(t *testing.T, addr string) *exec.Cmd {
			t.Helper()
			cmd := exec.Command(program(t, "bin/venv/bin/python"),
				program(t, "internal/testkit/difftest/python/uploads.py"), addr)
			cmd.Env = append(cmd.Environ(), "PYTHONDONTWRITEBYTECODE=1")
			return cmd
		}},
		{"grpc-js", func(t *testing.T, addr string) *exec.Cmd {
			t.Helper()
			return exec.Command("node", program(t, "internal/testkit/difftest/node/uploads.mjs"),
				program(t, "bin/node/node_modules"), addr)
		}},
	}
}

// startHasty starts a backend that responds to calls of one service before it reads them.
func startHasty(t *testing.T) *backend {
	t.Helper()
	s := grpcServer(&teller{journal: newJournal(), name: "hasty"},
		grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
			no, err := status.New(codes.OutOfRange,
				"the backend reads nothing").WithDetails(&errdetails.ErrorInfo{Reason: "HASTY", Domain: "test"})
			if err != nil {
				return err
			}
			return no.Err()
		}))
	check.Cleanup(t, s.Stop)
	b := &backend{name: "hasty", methods: "example.v1.Notes/*"}
	for i := range b.ports {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		check.Must(t, err)
		b.ports[i] = ln.Addr().(*net.TCPAddr).Port
		go func() { _ = s.Serve(ln) }() // ends only with Stop
	}
	return b
}

// A client that is still sending when the response arrives gets the response with its details, not a reset.
func TestUploadsThatAreRefused(t *testing.T) {
	g := startGateway(t, []*backend{startHasty(t)})
	const pass = "/example.v1.Notes/Take"
	invoke := docpb.Capability_Invoke_FullMethodName
	ours, nobody := "Bearer "+g.ours, "Bearer nobody"
	var all []upload
	for _, sent := range []struct{ size, stream int }{
		{1 << 10, 0}, {64 << 10, 0}, {1 << 20, 0}, {4 << 20, 0}, {1 << 10, 1}, {16 << 10, 16}, {64 << 10, 64},
		{1 << 20, 8},
	} {
		add := func(path, key, capability string, want codes.Code, reason string) {
			all = append(all, upload{path, map[string]string{"authorization": key, "x-capability-id": capability},
				sent.size, sent.stream, want, reason})
		}
		add(invoke, nobody, "hasty-doc", codes.Unauthenticated, "CREDENTIAL_INVALID")
		add(invoke, ours, "hasty-doc", codes.InvalidArgument, "AMBIGUOUS_MESSAGE")
		add("/example.v1.Other/Put", ours, "hasty-doc", codes.Unimplemented, "METHOD_UNKNOWN")
		add(pass, ours, "hasty-doc", codes.OutOfRange, "HASTY")
	}
	all = append(all, upload{invoke, map[string]string{"authorization": ours, "x-capability-id": "hasty-doc"},
		20 << 20, 0, codes.ResourceExhausted, "MESSAGE_TOO_LARGE"})
	for _, c := range uploaders(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			makeUploads(t, c.start(t, g.addr), all)
		})
	}
}

// makeUploads makes a client's uploads, one after the other.
func makeUploads(t *testing.T, cmd *exec.Cmd, all []upload) {
	t.Helper()
	var said strings.Builder
	cmd.Stderr = &said
	stdin, err := cmd.StdinPipe()
	check.Must(t, err)
	stdout, err := cmd.StdoutPipe()
	check.Must(t, err)
	check.Must(t, cmd.Start())
	timer := time.AfterFunc(check.Patience, func() { _ = cmd.Process.Kill() }) // for each line
	defer timer.Stop()
	lines, calls := bufio.NewReader(stdout), json.NewEncoder(stdin)
	for i := range all {
		_ = calls.Encode(&all[i]) // the end of the client has more details
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		timer.Reset(check.Patience)
		var got uploaded
		if err := json.Unmarshal(line, &got); err != nil || got.Code != all[i].want || got.reason() != all[i].reason {
			t.Errorf("%v: %v %q %q, %v", &all[i], got.Code, got.reason(), got.Message, err)
		}
	}
	_ = stdin.Close()
	_, _ = io.Copy(io.Discard, lines)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, said.String())
	}
}
