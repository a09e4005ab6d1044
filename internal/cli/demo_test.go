package cli

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
)

// startDemo starts capgate demo on free ports and returns when it has printed its usage.
func startDemo(t *testing.T) (p *program, greeting string) {
	t.Helper()
	p = start(t, nil, "demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	return p, p.stdout.wait(t, p, "Stop with Ctrl-C.\n")
}

// addresses returns the public and the admin address that a demo prints.
func addresses(greeting string) (public, admin string) {
	after := func(label string) string {
		_, rest, _ := strings.Cut(greeting, "\n  "+label)
		address, _, _ := strings.Cut(strings.TrimLeft(rest, " "), "\n")
		return strings.TrimPrefix(address, "http://")
	}
	return after("calls"), after("console")
}

// commandsIn returns the commands that the demo prints.
func commandsIn(greeting string) (all []string) {
	for line := range strings.Lines(greeting) {
		if strings.HasPrefix(line, "  curl ") || strings.HasPrefix(line, "  grpcurl ") {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

// The demo prints its addresses and a command that works, and then a line for each call and no log.
func TestDemoPrintsLinesThatWork(t *testing.T) {
	t.Parallel()
	p, greeting := startDemo(t)
	commands := commandsIn(greeting)
	if len(commands) != 1 {
		t.Fatalf("%q in:\n%s", commands, greeting)
	}
	if output, exit := shell(t, commands[0]); exit != 0 || !strings.Contains(output, `"location":"Berlin"`) {
		t.Errorf("%s\nexit status %d, prints %s", commands[0], exit, output)
	}
	public, admin := addresses(greeting)
	_, export, _ := strings.Cut(greeting, "\n  export ")
	export, _, _ = strings.Cut("export "+export, "\n")
	if output, exit := shell(t, export+" && capgate status"); exit != 0 || !strings.Contains(output, "1 fleet") {
		t.Errorf("%s\nexit status %d, prints %s", export, exit, output)
	}
	if code, body := page(t, "http://"+admin+"/readyz"); code != 200 || !strings.Contains(body, `"fleets_usable":1`) {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if code, body := page(t, "http://"+public+"/docs"); code != 200 || !strings.Contains(body, "<html") {
		t.Errorf("/docs: %d %s", code, body)
	}
	for _, line := range []string{"--user ann weather get_forecast {}", "weather get_forecast --agent bot {}",
		"none get_forecast"} {
		runProgram(t, nil, append([]string{"invoke", "--addr", public}, strings.Fields(line)...)...)
	}
	p.stdout.wait(t, p, "CAPABILITY_UNKNOWN")
	p.signal(t, syscall.SIGINT)
	if exit := p.wait(t); exit != 0 {
		t.Errorf("exit status %d after Ctrl-C", exit)
	}
	_, lines, _ := strings.Cut(p.stdout.String(), "Stop with Ctrl-C.\n\n")
	if !regexp.MustCompile(`^\d\d:\d\d:\d\d  127\.0\.0\.1     weather\.get_current_weather   OK  [\d.]+(ms|µs|s)
\d\d:\d\d:\d\d  ann           weather\.get_forecast          tool error  [\d.]+(ms|µs|s)
\d\d:\d\d:\d\d  bot           weather\.get_forecast          tool error  [\d.]+(ms|µs|s)
\d\d:\d\d:\d\d  127\.0\.0\.1     get_forecast                  CAPABILITY_UNKNOWN  .+
$`).MatchString(lines) || p.stderr.String() != "" {
		t.Errorf("prints\n%s\n%s", lines, p.stderr.String())
	}
}

// With --log-level the demo prints its log.
func TestDemoLogs(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-level", "info")
	p.stderr.wait(t, p, "msg=serving")
	public, _ := addresses(p.stdout.String())
	runProgram(t, nil, "invoke", "--addr", public, "weather", "get_forecast", `{"location":"Lima"}`)
	p.stderr.wait(t, p, "msg=call")
	if text := p.stdout.String(); !strings.HasSuffix(text, "Stop with Ctrl-C.\n\n") {
		t.Errorf("got %s", text)
	}
	p.stop(t)
}

// TestFirstAnswer: as a newcomer does, the program is built and runs the demo; the command that it prints
// succeeds.
func TestFirstAnswer(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "capgate")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", program,
		"../../cmd/capgate")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	cmd := exec.Command(program, "demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = cleanEnv()
	p := launch(t, cmd)
	greeting := p.stdout.wait(t, p, "Stop with Ctrl-C.\n")
	output, exit := shell(t, commandsIn(greeting)[0])
	if exit != 0 || !strings.Contains(output, `{"location":"Berlin","country":"Germany"`) {
		t.Errorf("exit status %d, %s", exit, output)
	}
	p.stop(t)
}

// A file that was uploaded through the gateway can be used, whichever replica has the call.
func TestDemoReplicasShareFiles(t *testing.T) {
	t.Parallel()
	_, greeting := startDemo(t)
	public, _ := addresses(greeting)
	for range 8 {
		exit, stdout, stderr := runProgram(t, nil, "invoke", "--addr", public, "weather", "export_report",
			`{"locations":["Oslo"]}`)
		var result struct {
			Artifact struct {
				ID string `json:"capability_artifact_id"`
			} `json:"artifact"`
		}
		if err := json.Unmarshal([]byte(stdout), &result); exit != 0 || err != nil || result.Artifact.ID == "" {
			t.Fatalf("exit status %d, %v, %s, %s; result %+v", exit, err, stdout, stderr, result)
		}
		if file, err := download(t, public, result.Artifact.ID); err != nil || !strings.Contains(file, "Oslo") {
			t.Errorf("got %q, %v", file, err)
		}
	}
}

func TestDemoSaysWhichPortIsTaken(t *testing.T) {
	t.Parallel()
	busy := taken(t)
	for flag, args := range map[string][]string{
		"--listen": {"demo", "--listen", busy, "--admin", "127.0.0.1:0"},
		"--admin":  {"demo", "--listen", "127.0.0.1:0", "--admin", busy},
	} {
		exit, stdout, stderr := runProgram(t, nil, args...)
		if want := busy + " is in use by another program; choose another address with " + flag +
			" HOST:PORT\n"; exit != 1 || stdout != "" || !strings.HasSuffix(stderr, want) {
			t.Errorf("exit status %d, stdout %q, stderr %q", exit, stdout, stderr)
		}
	}
}

func TestInvokeThroughTheDemo(t *testing.T) {
	t.Parallel()
	p, greeting := startDemo(t)
	public, _ := addresses(greeting)
	nobody := taken(t) // listens without responding; the call's timeout ends it
	for name, test := range map[string]struct {
		args []string
		exit int
		want string // in stdout for 0, otherwise in stderr
	}{
		"result": {[]string{"--addr", public, "weather", "get_current_weather", `{"location":"Berlin"}`},
			0, `"location": "Berlin"`},
		"stream": {[]string{"--addr", public, "--stream", "weather", "get_forecast",
			`{"location":"Lima","days":2}`}, 0, `"location":"Lima"`},
		"tool error": {[]string{"--addr", public, "weather", "get_current_weather", `{"location":"Berln"}`},
			1, "did you mean Berlin"},
		"streamed error":     {[]string{"--addr", public, "--stream", "weather", "nope"}, 1, "unknown tool"},
		"usage":              {[]string{"--addr", public, "weather"}, 2, "Try: capgate invoke -h"},
		"args are no object": {[]string{"--addr", public, "weather", "get_forecast", `[]`}, 2, "not a JSON object"},
		"unknown capability": {[]string{"--addr", public, "wether", "get_forecast"}, 1, "(CAPABILITY_UNKNOWN)"},
		"nobody there": {[]string{"--addr", nobody, "--timeout", "200ms", "weather", "get_forecast"}, 3,
			"did not answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			exit, stdout, stderr := runProgram(t, nil, append([]string{"invoke"}, test.args...)...)
			output, silent := stderr, stdout
			if test.exit == 0 {
				output, silent = stdout, stderr
			}
			if exit != test.exit || !strings.Contains(output, test.want) || silent != "" {
				t.Errorf("exit status %d, stdout %q, stderr %q; silent %+v", exit, stdout, stderr, silent)
			}
		})
	}
	p.stop(t)
}

// download fetches an artifact of the weather capability.
func download(t *testing.T, addr, id string) (string, error) {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-capability-id", "weather")
	stream, err := dial(t, addr).DownloadOutputArtifact(ctx, &docpb.DownloadOutputArtifactRequest{ArtifactId: id})
	if err != nil {
		return "", err
	}
	var file strings.Builder
	for {
		chunk, err := stream.Recv()
		if err != nil {
			return "", err
		}
		file.Write(chunk.GetData())
		if chunk.GetError() != "" {
			return "", errors.New(chunk.GetError())
		}
		if chunk.GetDone() {
			return file.String(), nil
		}
	}
}

// Clients of either dialect that name no capability can send a file and read the health.
func TestDemoServesClientsThatNameNothing(t *testing.T) {
	t.Parallel()
	_, greeting := startDemo(t)
	public, _ := addresses(greeting)
	conn, err := clienttest.NewConn(public, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	doc, live := docpb.NewCapabilityClient(conn), livepb.NewCapabilityClient(conn)

	if reply, err := doc.Healthcheck(t.Context(), &docpb.HealthRequest{}); err != nil || !reply.GetReady() {
		t.Errorf("doc: %v, %v", reply, err)
	}
	if reply, err := live.Healthcheck(t.Context(), &livepb.HealthRequest{}); err != nil || !reply.GetReady() {
		t.Errorf("live: %v, %v", reply, err)
	}
	docUpload, err := doc.UploadInputArtifact(t.Context())
	check.Must(t, err)
	if err := docUpload.Send(&docpb.UploadInputArtifactChunk{Data: []byte("Oslo\n"), Filename: "places.txt",
		MimeType: "text/plain"}); err != nil {
		t.Fatal(err)
	}
	if reply, err := docUpload.CloseAndRecv(); err != nil || reply.GetCapabilityArtifactId() == "" {
		t.Errorf("doc: %v, %v", reply, err)
	}
	liveUpload, err := live.UploadInputArtifact(t.Context())
	check.Must(t, err)
	if err := liveUpload.Send(&livepb.UploadInputArtifactChunk{Data: []byte("Oslo\n"), Filename: "places.txt",
		MimeType: "text/plain"}); err != nil {
		t.Fatal(err)
	}
	uploaded, err := liveUpload.CloseAndRecv()
	if err != nil || uploaded.GetSizeBytes() != 5 {
		t.Fatalf("live: %v, %v", uploaded, err)
	}
	args := `{"attachments":[{"capability_artifact_id":"` + uploaded.GetCapabilityArtifactId() + `"}]}`
	reply, err := live.Invoke(t.Context(),
		&livepb.InvokeRequest{ToolName: "export_report", ArgsJson: []byte(args), CapabilityId: "weather"})
	if err != nil || reply.GetError() != "" {
		t.Fatalf("got %v, %v", reply, err)
	}
	var result struct {
		Artifact struct {
			ID string `json:"capability_artifact_id"`
		} `json:"artifact"`
	}
	check.Must(t, json.Unmarshal(reply.GetResultJson(), &result))
	file, err := live.DownloadOutputArtifact(t.Context(),
		&livepb.DownloadOutputArtifactRequest{CapabilityArtifactId: result.Artifact.ID})
	check.Must(t, err)
	if chunk, err := file.Recv(); err != nil || !strings.Contains(string(chunk.GetData()), "Oslo") {
		t.Errorf("got %v, %v", chunk, err)
	}
}
