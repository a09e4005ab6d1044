package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
)

// The promises about a forwarder with so many streams.
const (
	streams         = 100
	maxResident     = 16 << 10 // KiB
	maxDescriptors  = 64
	connections     = 10       // that the streams come by
	bytesPerRequest = 60 << 10 // within a stream's window
)

// chatty is a gateway whose streams send as much as a window takes, and then stay open.
type chatty struct {
	livepb.UnimplementedCapabilityServer
}

func (chatty) StreamInvoke(req *livepb.InvokeRequest, s grpc.ServerStreamingServer[livepb.InvokeChunk]) error {
	if err := s.Send(&livepb.InvokeChunk{Data: req.GetArgsJson()}); err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

// TestSmall: the program as `make forward` builds it stays small with many streams open over TLS, and ends with status
// 0 on SIGTERM.
func TestSmall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "capgate-forward")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o",
		program, ".")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	authority := certtest.New(t)
	ca := filepath.Join(dir, "ca.pem")
	check.Must(t, os.WriteFile(ca, []byte(authority.PEM), 0o600))
	cert := authority.Server(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	gateway := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&cert)))
	livepb.RegisterCapabilityServer(gateway, chatty{})
	go func() { _ = gateway.Serve(ln) }()
	t.Cleanup(gateway.Stop)

	cmd := exec.CommandContext(t.Context(), program)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = []string{"SELU_CAPABILITY_ID=weather", "SELU_SESSION_ID=s", "CAPGATE_URL=https://" + ln.Addr().String(),
		"CAPGATE_KEY=cg_a_b", "CAPGATE_CA_FILE=" + ca, "CAPGATE_LISTEN=127.0.0.1:0"}
	stderr, err := cmd.StderrPipe()
	check.Must(t, err)
	check.Must(t, cmd.Start())
	line := make([]byte, 4096)
	silent := time.AfterFunc(check.Patience, func() { _ = cmd.Process.Kill() })
	n, err := stderr.Read(line)
	silent.Stop()
	check.Must(t, err)
	addr := regexp.MustCompile(`"listen":"([^"]+)"`).FindSubmatch(line[:n])
	if addr == nil {
		t.Fatalf("it says %s", line[:n])
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }()
	closeAll := openStreams(t, string(addr[1]))

	resident, open := measure(t, cmd.Process.Pid)
	t.Logf("%d streams over %d connections: %d KiB resident, %d descriptors", streams, connections, resident, open)
	if resident > maxResident || open > maxDescriptors {
		t.Errorf("%d KiB are resident and %d descriptors open, want at most %d and %d", resident, open, maxResident,
			maxDescriptors)
	}
	closeAll()
	defer time.AfterFunc(check.Patience, func() { _ = cmd.Process.Kill() }).Stop()
	check.Must(t, cmd.Process.Signal(syscall.SIGTERM))
	check.Must(t, cmd.Wait())
}

// openStreams opens streams that have sent and received a message, and returns a function that ends them.
func openStreams(t *testing.T, addr string) (closeAll func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var conns []*grpc.ClientConn
	closeAll = func() {
		cancel()
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
	t.Cleanup(closeAll)
	req := &livepb.InvokeRequest{ToolName: "chat", ArgsJson: make([]byte, bytesPerRequest)}
	for i := range streams {
		if i < connections {
			conn, err := clienttest.NewConn("passthrough:///"+addr,
				grpc.WithTransportCredentials(insecure.NewCredentials()))
			check.Must(t, err)
			conns = append(conns, conn)
		}
		stream, err := livepb.NewCapabilityClient(conns[i%connections]).StreamInvoke(ctx, req)
		check.Must(t, err)
		_, err = stream.Recv()
		check.Must(t, err)
	}
	return closeAll
}

// measure returns what a process holds.
func measure(t *testing.T, pid int) (residentKiB, descriptors int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	check.Must(t, err)
	field := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	if field == nil {
		t.Fatalf("no VmRSS in %s", status)
	}
	residentKiB, err = strconv.Atoi(string(field[1]))
	check.Must(t, err)
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	check.Must(t, err)
	return residentKiB, len(open)
}

// TestSettings: wrong settings and arguments are explained, with the exit status of a wrong command line.
func TestSettings(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"capgate-forward: SELU_CAPABILITY_ID: no capability is named": nil,
		"CAPGATE_URL            http://HOST:PORT":                     {"serve"},
	} {
		var told strings.Builder
		if exit := run(args, func(string) string {
			return ""
		}, io.Discard, &told); exit != 2 || !strings.Contains(told.String(), want) {
			t.Errorf("%q: %d %s", args, exit, told.String())
		}
	}
	if exit := run([]string{"--help"}, os.Getenv, io.Discard, io.Discard); exit != 0 {
		t.Errorf("--help: %d", exit)
	}
	var version strings.Builder
	if exit := run([]string{"--version"}, os.Getenv, &version, io.Discard); exit != 0 ||
		!strings.HasPrefix(version.String(), "capgate-forward ") {
		t.Errorf("--version: %d %q", exit, version.String())
	}
}
