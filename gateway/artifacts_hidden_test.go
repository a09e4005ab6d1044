package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// sharing is a gateway for the tenants acme and globex. acme has uploaded a file.
type sharing struct {
	room         *room
	gateway      *gatewaytest.Gateway
	conn         *grpc.ClientConn
	keys         map[string]string
	acme, globex context.Context
	id           string
}

func startSharing(t *testing.T, backend call.Dialect) *sharing {
	t.Helper()
	ring, keys := newKeyring(), tenant.NewKeys(nil)
	keys.Replace(ring.keys, settings(t, map[string][]string{"acme": {"*"}, "globex": {"*"}}), nil)
	s := &sharing{room: newRoom(t, 1, backend), keys: ring.credentials}
	s.acme, s.globex = to(bearer(t.Context(), s.keys["acme"]), "caps"),
		to(bearer(t.Context(), s.keys["globex"]), "caps")
	s.gateway = gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{s.room.fleet(backend)},
		Authenticator: keys})
	s.conn = s.gateway.Conn(t)
	up, err := gatewaytest.NewClient(s.conn, call.Doc).Upload(s.acme,
		gatewaytest.File{Name: "a.txt", Data: []byte("x")})
	if err != nil || up.ID == "" {
		t.Fatalf("got %v, %v", up, err)
	}
	s.id = up.ID
	return s
}

// refused requires that a call was rejected before it reached a backend, and not because of its caller.
func (s *sharing) refused(t *testing.T, what string, err error, seen int) {
	t.Helper()
	if code := status.Code(err); code != codes.NotFound && code != codes.InvalidArgument {
		t.Errorf("%s: %v", what, err)
	}
	if n := len(s.room.all[0].Seen()) - seen; n > 0 {
		t.Errorf("%s: the backend saw %d calls", what, n)
	}
}

// utf encodes text in units of 2 or 4 bytes, in either byte order.
func utf(text string, size int, big bool) string {
	var b strings.Builder
	put := func(n uint32) {
		for i := range size {
			if big {
				i = size - 1 - i
			}
			b.WriteByte(byte(n >> (8 * i)))
		}
	}
	if size == 4 {
		for _, r := range text {
			put(uint32(r))
		}
	} else {
		for _, u := range utf16.Encode([]rune(text)) {
			put(uint32(u))
		}
	}
	return b.String()
}

// hidings are arguments that name an artifact for some reader of JSON, with the error that another tenant gets.
func hidings(id string) map[string]struct{ args, reason string } {
	plain := `{"file":{"capability_artifact_id":"` + id + `"}}`
	quoted, _ := json.Marshal(plain)
	twice, _ := json.Marshal(string(quoted))
	long := `"pad":"` + strings.Repeat("x", 100_000) + `"`
	return map[string]struct{ args, reason string }{
		"UTF-16 LE":         {utf(plain, 2, false), "AMBIGUOUS_ARGUMENTS"}, // accepted by json.loads
		"UTF-16 BE":         {utf(plain, 2, true), "AMBIGUOUS_ARGUMENTS"},
		"UTF-16 with a BOM": {"\xff\xfe" + utf(plain, 2, false), "AMBIGUOUS_ARGUMENTS"},
		"UTF-32 LE":         {utf(plain, 4, false), "AMBIGUOUS_ARGUMENTS"},
		"UTF-32 BE":         {utf(plain, 4, true), "AMBIGUOUS_ARGUMENTS"},
		"a BOM":             {"\ufeff" + plain, "AMBIGUOUS_ARGUMENTS"},
		"twice": {`{"capability_artifact_id":"mine","capability_artifact_id":"` + id + `"}`,
			"AMBIGUOUS_ARGUMENTS"},
		"a NUL":            {`{"capability_artifact_id\u0000":"` + id + `"}`, "AMBIGUOUS_ARGUMENTS"},
		"half a character": {`{"x":"\ud800","capability_artifact_id":"` + id + `"}`, "AMBIGUOUS_ARGUMENTS"},
		"after the end":    {`{} ` + plain, "AMBIGUOUS_ARGUMENTS"},
		"in another case":  {`{"Capability_Artifact_ID":"` + id + `"}`, "ARTIFACT_UNKNOWN"},
		"escaped":          {`{"\u0063apability\u005fartifact_id":"` + id + `"}`, "ARTIFACT_UNKNOWN"},
		"in a string":      {`{"request":` + string(quoted) + `}`, "ARTIFACT_UNKNOWN"},
		"in two strings":   {`{"request":` + string(twice) + `}`, "ARTIFACT_UNKNOWN"},
		"in a list":        {`{"capability_artifact_id":["` + id + `"]}`, "ARTIFACT_UNKNOWN"},
		"not in JSON":      {`{'capability_artifact_id':'` + id + `'}`, "ARGUMENTS_INVALID"},
		"long":             {`{` + long + `,"capability_artifact_id":"` + id + `"}`, "ARTIFACT_UNKNOWN"},
		"long, in UTF-16":  {utf(`{`+long+`,"capability_artifact_id":"`+id+`"}`, 2, false), "AMBIGUOUS_ARGUMENTS"},
		"deep":             {strings.Repeat(`{"a":`, 101) + plain + strings.Repeat("}", 101), "ARGUMENTS_INVALID"},
	}
}

// TestHiddenArtifacts: no spelling of the arguments names another tenant's artifact to a backend, over gRPC in
// each dialect, compressed or not.
func TestHiddenArtifacts(t *testing.T) {
	every(t, func(t *testing.T, client, backend call.Dialect) {
		if backend == call.Legacy { // nothing is uploaded at this backend
			return
		}
		s := startSharing(t, backend)
		c := gatewaytest.NewClient(s.conn, client)
		for name, test := range hidings(s.id) {
			if client == call.Legacy && strings.Contains(test.args, "\xff") {
				continue // text that the encoder rejects
			}
			seen := len(s.room.all[0].Seen())
			for _, opts := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
				err := errOf(c.Invoke(s.globex, request(gatewaytest.Echo, test.args), opts...))
				s.refused(t, name, err, seen)
				if reason := errorInfo(err).GetReason(); reason != test.reason && (client != call.Legacy ||
					reason != "AMBIGUOUS_MESSAGE") {
					t.Errorf("%s: %v, want %s", name, err, test.reason)
				}
			}
			if err := errOf(c.Invoke(s.acme,
				request(gatewaytest.Echo, test.args))); test.reason == "ARTIFACT_UNKNOWN" && err != nil {
				t.Errorf("%s, by its tenant: %v", name, err)
			}
		}
		if client != call.Legacy {
			s.refused(t, "no id", errOf(c.Download(s.globex, "")), len(s.room.all[0].Seen()))
		}
	})
}

// TestArtifactsBesideArguments: fields other than the arguments cannot name another caller's artifact either.
func TestArtifactsBesideArguments(t *testing.T) {
	t.Parallel()
	s := startSharing(t, call.Doc)
	seen := len(s.room.all[0].Seen())
	req := request(gatewaytest.Echo, `{}`)
	req.ConfigJson = []byte(`{"file":{"capability_artifact_id":"` + s.id + `"}}`)
	s.refused(t, "config_json", errOf(gatewaytest.NewClient(s.conn, call.Doc).Invoke(s.globex, req)), seen)
	legacy := legacypb.NewCapabilityServiceClient(s.conn)
	for name, said := range map[string]map[string]string{
		"an entry":   {"capability_artifact_id": s.id},
		"attachment": {"x": "y", "attachments": `[{"capability_artifact_id":"` + s.id + `"}]`},
		"config":     {"config_json": `{"capability_artifact_id":"` + s.id + `"}`},
		"long":       {"x": strings.Repeat("x", 100_000), "Capability_artifact_id": s.id},
	} {
		said["capability_id"] = "caps"
		in := &legacypb.InvokeRequest{ToolName: gatewaytest.Echo, Parameters: `{}`, Context: said}
		s.refused(t, name, errOf(legacy.Invoke(s.globex, in)), seen)
		if _, err := legacy.Invoke(s.acme, in); err != nil {
			t.Errorf("%s, by its tenant: %v", name, err)
		}
		seen++
	}
}

// TestArtifactsOfLegacyTools: an artifact that a legacy tool announces belongs to its caller alone.
func TestArtifactsOfLegacyTools(t *testing.T) {
	t.Parallel()
	ring, keys := newKeyring(), tenant.NewKeys(nil)
	keys.Replace(ring.keys, settings(t, map[string][]string{"acme": {"*"}, "globex": {"*"}}), nil)
	r := newRoom(t, 1, call.Legacy)
	r.all[0].SetLists(func() ([]byte, string, error) {
		return []byte(`{"capability_artifact_id":"report-1"}`), "", nil
	})
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{r.fleet(call.Legacy)},
		Authenticator: keys})
	acme, globex := to(bearer(t.Context(), ring.credentials["acme"]), "caps"),
		to(bearer(t.Context(), ring.credentials["globex"]), "caps")
	for _, d := range []call.Dialect{call.Legacy, call.Doc} {
		c := gatewaytest.NewClient(g.Conn(t), d)
		naming := request(gatewaytest.Echo, `{"capability_artifact_id":"report-1"}`)
		if d == call.Legacy {
			wants(t, errOf(c.Invoke(acme, naming)), codes.NotFound, "ARTIFACT_UNKNOWN")
		}
		if _, err := c.Invoke(acme, request(gatewaytest.List, `{}`)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Invoke(acme, naming); err != nil {
			t.Errorf("%s: %v", d, err)
		}
		wants(t, errOf(c.Invoke(globex, naming)), codes.NotFound, "ARTIFACT_UNKNOWN")
	}
}

// TestHiddenArtifactsOverHTTP: the HTTP doors reject the same spellings as gRPC.
func TestHiddenArtifactsOverHTTP(t *testing.T) {
	t.Parallel()
	s := startSharing(t, call.Doc)
	client := s.gateway.HTTP1(t)
	seen := len(s.room.all[0].Seen())
	for name, body := range map[string]string{
		"args":            `{"tool_name":"echo","args":{"capability_artifact_id":"THIS"}}`,
		"escaped":         `{"tool_name":"echo","args":{"\u0063apability_artifact_id":"THIS"}}`,
		"in another case": `{"tool_name":"echo","args":{"CAPABILITY_ARTIFACT_ID":"THIS"}}`,
		"in a string":     `{"tool_name":"echo","args":{"x":"{\"capability_artifact_id\":\"THIS\"}"}}`,
		"twice":           `{"tool_name":"echo","args":{"capability_artifact_id":"mine","capability_artifact_id":"THIS"}}`,
	} {
		resp, text := post(t, client, s.gateway, "caps", strings.ReplaceAll(body, "THIS", s.id), "Authorization",
			"Bearer "+s.keys["globex"])
		if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s %s", name, resp.Status, text)
		}
	}
	for _, d := range webDialects {
		web := newWebClient(s.gateway.HTTP2(t), s.gateway.URL(""), d.options...)
		for name, test := range hidings(s.id) {
			req := connect.NewRequest(request(gatewaytest.Echo, test.args))
			req.Header().Set("Authorization", "Bearer "+s.keys["globex"])
			_, err := web.invoke.CallUnary(t.Context(), req)
			if reasonOf(err) != test.reason {
				t.Errorf("%s, %s: %v, want %s", d.name, name, err, test.reason)
			}
		}
		file := connect.NewRequest(&docpb.DownloadOutputArtifactRequest{ArtifactId: s.id})
		file.Header().Set("Authorization", "Bearer "+s.keys["globex"])
		file.Header().Set("X-Capability-Id", "caps")
		stream, err := web.download.CallServerStream(t.Context(), file)
		if err == nil {
			for stream.Receive() {
				t.Errorf("%s: got %d bytes of another tenant's file", d.name, len(stream.Msg().GetData()))
			}
			err = stream.Err()
		}
		if reasonOf(err) != "ARTIFACT_UNKNOWN" {
			t.Errorf("%s, download: %v", d.name, err)
		}
	}
	if n := len(s.room.all[0].Seen()) - seen; n != 0 {
		t.Errorf("the backend saw %d calls", n)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		s.gateway.URL("/v1/capabilities/caps/artifacts/"+s.id), http.NoBody)
	check.Must(t, err)
	for who, want := range map[string]int{"globex": http.StatusNotFound, "acme": http.StatusOK} {
		req.Header.Set("Authorization", "Bearer "+s.keys[who])
		resp, err := client.Do(req)
		check.Must(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s gets the file: %s, want %s", who, resp.Status, strconv.Itoa(want))
		}
	}
}
