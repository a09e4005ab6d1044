package gateway_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/capgate/capgate/gateway/builtin/listing"
	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/catalog"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Two names of equal length: one is a capability that is not granted to the tenant acme, the other does not
// exist.
const hidden, absent = "hidden", "absent"

// settings is a directory of tenants, each of which is granted some patterns.
func settings(t testing.TB, granted map[string][]string) map[string]*tenant.Settings {
	t.Helper()
	all := map[string]*tenant.Settings{}
	for id, patterns := range granted {
		g, err := tenant.ParseGrants(patterns)
		check.Must(t, err)
		all[id] = &tenant.Settings{ID: id, Capabilities: g}
	}
	return all
}

// visibility is a gateway with the capabilities caps, which acme is granted, and hidden.
type visibility struct {
	gateway    *gatewaytest.Gateway
	capability *gatewaytest.Capability // hidden
	ring       *keyring
	keys       *tenant.Keys
}

func startVisibility(t *testing.T) *visibility {
	t.Helper()
	v := &visibility{capability: gatewaytest.NewCapability("b1"), ring: newKeyring(), keys: tenant.NewKeys(nil)}
	v.keys.Replace(v.ring.keys, settings(t, map[string][]string{"acme": {"caps"}, "globex": {"*"}}), nil)
	known := catalog.New(catalog.Options{})
	known.Replace(map[string]catalog.Declaration{
		"caps": {Policy: call.Allow, Manifest: &manifest.Manifest{ID: "caps", Tools: []manifest.Tool{tool(t, "echo")}}},
		hidden: {Policy: call.Allow, Manifest: &manifest.Manifest{ID: hidden,
			Tools: []manifest.Tool{tool(t, "echo"), tool(t, "secretly")}}},
	})
	options := policy.Options{Source: known}
	decider, err := policy.New(options)
	check.Must(t, err)
	v.gateway = gatewaytest.Start(t, gatewaytest.Options{
		Domains: []string{"caps.example.com"},
		Fleets: []gatewaytest.Fleet{
			{Capability: "caps", Backends: []string{gatewaytest.NewCapability("b2").Serve(t, call.Doc).Addr}},
			{Capability: hidden, Services: []string{"p." + hidden},
				Backends: []string{v.capability.Serve(t, call.Doc).Addr}},
		},
		Policy:        options,
		Authenticator: v.keys,
		Services: func(g grpc.ServiceRegistrar) {
			capgatepb.RegisterCatalogServer(g, listing.New(known, decider))
		},
	})
	return v
}

// rawRequest is a request whose response is compared. NAME in it stands for a capability.
type rawRequest struct {
	method, path, host string
	header             []string // names and values in turn
	body               func(name string) []byte
}

// answer is the whole response except for the time, with NAME for the capability.
func (v *visibility) answer(t *testing.T, client *http.Client, r *rawRequest, name string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), r.method,
		v.gateway.URL(strings.ReplaceAll(r.path, "NAME", name)), bytes.NewReader(r.body(name)))
	check.Must(t, err)
	mixed := strings.ToUpper(name[:1]) + name[1:]
	req.Host = strings.NewReplacer("NAME", name, "NaMe", mixed).Replace(r.host)
	req.Header.Set("X-Request-Id", "r") // otherwise each response has another one
	for i := 0; i < len(r.header); i += 2 {
		req.Header.Add(r.header[i], strings.ReplaceAll(r.header[i+1], "NAME", name))
	}
	resp, err := client.Do(req)
	check.Must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	resp.Header.Del("Date")
	said := fmt.Sprintf("%s %q\n", resp.Status, body)
	for _, header := range []http.Header{resp.Header, resp.Trailer} {
		if details := header.Get("Grpc-Status-Details-Bin"); details != "" {
			raw, err := base64.RawStdEncoding.DecodeString(details)
			header.Set("Grpc-Status-Details-Bin", fmt.Sprintf("%q %v", raw, err))
		}
		said += fmt.Sprintf("%v\n", header)
	}
	return strings.NewReplacer(name, "NAME", mixed, "NaMe").Replace(said)
}

// frame returns a gRPC message with its prefix.
func frame(compressed byte, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{compressed}, uint32(len(message))), message...)
}

// bodies are message bodies of gRPC calls, by what is special about them; each may name a capability.
var bodies = map[string]func(name string) []byte{
	"":            func(name string) []byte { return frame(0, invokeRequest(name)) },
	"unnamed":     func(string) []byte { return frame(0, invokeRequest("")) },
	"no message":  func(string) []byte { return nil },
	"no protobuf": func(string) []byte { return frame(0, []byte("\xff\xff")) },
	"gzip": func(name string) []byte {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(invokeRequest(name))
		_ = w.Close()
		return frame(1, packed.Bytes())
	},
	"no gzip":  func(string) []byte { return frame(1, []byte("?")) },
	"cut off":  func(name string) []byte { return frame(0, invokeRequest(name))[:9] },
	"too long": func(string) []byte { return []byte("\x00\xff\xff\xff\xff") },
}

func invokeRequest(name string) []byte {
	data, _ := proto.Marshal(&docpb.InvokeRequest{CapabilityId: name, ToolName: "secretly", ArgsJson: []byte(`{"n":1}`),
		ConfigJson: []byte(`{"a":1}`), SessionId: "s"})
	return data
}

// rawRequests returns all ways to name a capability, combined with everything else that may be wrong.
func rawRequests() (all []rawRequest) {
	paths := []string{"/p.NAME/Method", "/capgate.v1.Catalog/Nothing"}
	for _, m := range []call.Method{call.Invoke, call.StreamInvoke, call.Healthcheck, call.UploadInputArtifact,
		call.DownloadOutputArtifact} {
		for _, d := range []call.Dialect{call.Doc, call.Live, call.Legacy} {
			if path, ok := dialect.Path(m, d); ok {
				paths = append(paths, path)
			}
		}
	}
	grpcHeader := []string{"content-type", "application/grpc", "te", "trailers"}
	for _, path := range paths {
		for _, header := range [][]string{nil, {"x-capability-id", "NAME"}, {"x-capability-id", "caps"},
			{"x-capability-id", "NAME", "x-capability-id", "caps"},
			{"x-capability-id", "NAME", "x-approval-id", "x", "x-approval-wait", "soon"},
			{"x-capability-id", "NAME", "x-session-id", "a", "x-session-id", "b"},
			{"x-capability-id", "NAME", "grpc-encoding", "gzip"}, {"grpc-encoding", "gzip"}, {"grpc-encoding", "br"}} {
			for _, host := range []string{"", "NAME.caps.example.com", "NaMe.caps.example.com"} {
				for _, body := range bodies {
					all = append(all, rawRequest{http.MethodPost, path, host, slices.Concat(grpcHeader, header), body})
				}
			}
		}
	}
	for _, message := range []proto.Message{&capgatepb.GetCapabilityRequest{}, &capgatepb.ListToolsRequest{}} {
		method := strings.TrimSuffix(string(message.ProtoReflect().Descriptor().Name()), "Request")
		all = append(all, rawRequest{http.MethodPost, "/capgate.v1.Catalog/" + method, "", grpcHeader,
			func(name string) []byte {
				of := proto.Clone(message).ProtoReflect()
				of.Set(of.Descriptor().Fields().ByName("capability_id"), protoreflect.ValueOfString(name))
				data, _ := proto.Marshal(of.Interface())
				return frame(0, data)
			}})
	}
	return append(all, jsonRequests()...)
}

func jsonRequests() (all []rawRequest) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodHead, http.MethodOptions,
		http.MethodDelete} {
		for _, path := range []string{"", "/invoke", "/tools", "/tools/secretly", ":discover"} {
			for _, body := range []string{"", "{", `{"tool_name":"secretly","args":{"n":1}}`,
				`{"tool_name":"secretly","nothing":1}`, `{"tool_name":"secretly","args_json":"?"}`} {
				for _, header := range [][]string{nil, {"x-capability-id", "NAME"}, {"x-capability-id", "caps"},
					{"if-none-match", "*"}, {"x-approval-wait", "soon"}} {
					all = append(all, rawRequest{method, "/v1/capabilities/NAME" + path, "", header,
						func(string) []byte { return []byte(body) }})
				}
			}
		}
	}
	return all
}

// TestUngrantedCapabilitiesAreInvisible: whatever a tenant requests about a capability that it is not granted, the
// response is, byte for byte, that for a name that does not exist. Requests run one after the other, so that
// the race detector sees as much in a part of them; make test runs all of them without it.
func TestUngrantedCapabilitiesAreInvisible(t *testing.T) {
	t.Parallel()
	v := startVisibility(t)
	client := v.gateway.HTTP2(t)
	seen := map[string]int{}
	all := rawRequests()
	step := 1
	if raceDetector {
		step = 7 // the number varies over paths, headers, hosts and bodies
	}
	for i := 0; i < len(all); i += step {
		r := &all[i]
		r.header = append(r.header, "authorization", "Bearer "+v.ring.credentials["acme"])
		got, want := v.answer(t, client, r, hidden), v.answer(t, client, r, absent)
		if got != want && !strings.Contains(got, "Served-By:[b2]") { // their responses are all different
			t.Errorf("%s %s %s %q: %s\nfor an unknown name: %s", r.method, r.path, r.host, r.header, got, want)
		}
		for _, reason := range []string{"CAPABILITY_UNKNOWN", "ROUTING_KEY_MISSING", "ROUTING_KEY_CONFLICT"} {
			if strings.Contains(got, reason) {
				seen[reason]++
			}
		}
	}
	if len(seen) != 3 || len(v.capability.Seen()) > 0 {
		t.Errorf("of %d answers: %v; the capability was called %d times", len(all), seen, len(v.capability.Seen()))
	}
	_, page := getJSON(t, v.gateway, "/v1/capabilities", "x-api-key", v.ring.credentials["acme"])
	_, others := getJSON(t, v.gateway, "/v1/capabilities", "x-api-key", v.ring.credentials["globex"])
	if strings.Contains(page, hidden) || !strings.Contains(page, "caps") || !strings.Contains(others, hidden) {
		t.Errorf("the lists: %s\n%s", page, others)
	}
}

// TestGrantsChange: a new grant applies from the next call on, and so does a withdrawn one, also for the next
// streams and JSON calls on the same connection.
func TestGrantsChange(t *testing.T) {
	t.Parallel()
	v := startVisibility(t)
	client := gatewaytest.NewClient(v.gateway.Conn(t), call.Doc)
	ctx := bearer(t.Context(), v.ring.credentials["acme"])
	for i, patterns := range [][]string{{"caps"}, {"caps", "hid*"}, {}, {"*"}, {"other"}} {
		v.keys.Replace(v.ring.keys, settings(t, map[string][]string{"acme": patterns}), nil)
		there := i%2 == 1
		_, err := client.Invoke(ctx, &docpb.InvokeRequest{CapabilityId: hidden, ToolName: "echo"})
		if got := errorInfo(err).GetReason(); (got == "") != there || !there && got != "CAPABILITY_UNKNOWN" {
			t.Errorf("%q: %v; there %+v", patterns, err, there)
		}
		if _, _, err := client.Healthcheck(to(ctx, hidden)); (err == nil) != there {
			t.Errorf("%q: %v", patterns, err)
		}
		if resp, body := getJSON(t, v.gateway, "/v1/capabilities/"+hidden, "x-api-key",
			v.ring.credentials["acme"]); (resp.StatusCode == http.StatusOK) != there {
			t.Errorf("%q: %s %s", patterns, resp.Status, body)
		}
	}
}

// TestApprovalsOfUngrantedCapabilities: the tenant cannot see, answer, list or be notified of such approvals,
// although they are its own. Pages of lists are as long as others.
func TestApprovalsOfUngrantedCapabilities(t *testing.T) {
	t.Parallel()
	ring := newKeyring()
	approver := openDesk(t).Service
	ask := func(capability string, n int) string {
		outside()
		a, _, refusal := approver.Create(t.Context(), &approvals.Request{Tenant: "acme", Capability: capability,
			Tool: "echo", Args: fmt.Appendf(nil, `{"n":%d}`, n)})
		if refusal != nil {
			t.Fatal(refusal)
		}
		return a.ID
	}
	first, taken, last := ask("caps", 1), ask(hidden, 2), ask("caps", 3)
	g := services(t, ring, approver)
	ring.issued.Replace(ring.keys, settings(t, map[string][]string{"acme": {"caps"}}), nil)
	client := capgatepb.NewApprovalsClient(g.Conn(t))
	ctx := bearer(t.Context(), ring.credentials["approver"])
	for id, there := range map[string]bool{first: true, taken: false, "apr_AAAAAAAAAAAAAAAAAAAAAAAAAA": false} {
		if _, err := client.GetApproval(ctx, &capgatepb.GetApprovalRequest{ApprovalId: id}); (err == nil) != there {
			t.Errorf("%s: %v", id, err)
		}
	}
	for _, id := range []string{taken, "apr_AAAAAAAAAAAAAAAAAAAAAAAAAA"} {
		wants(t, errOf(client.Approve(ctx, &capgatepb.ApproveRequest{ApprovalId: id})), codes.NotFound,
			"APPROVAL_UNKNOWN")
		wants(t, errOf(client.Deny(ctx, &capgatepb.DenyRequest{ApprovalId: id})), codes.NotFound, "APPROVAL_UNKNOWN")
	}
	page, err := client.ListApprovals(ctx, &capgatepb.ListApprovalsRequest{PageSize: 2})
	listed := map[string]bool{} // in any order: all may have the same millisecond
	for _, a := range page.GetApprovals() {
		listed[a.GetId()] = true
	}
	if err != nil || len(page.GetApprovals()) != 2 || !listed[first] || !listed[last] {
		t.Errorf("%v, %v; want %s and %s", page, err, first, last)
	}
	if page, err = client.ListApprovals(ctx, &capgatepb.ListApprovalsRequest{Capability: hidden}); err != nil ||
		len(page.GetApprovals()) > 0 || page.GetNextPageToken() != "" {
		t.Errorf("got %v, %v", page, err)
	}
	events, err := client.WatchApprovals(ctx, &capgatepb.WatchApprovalsRequest{LastEventId: "0"})
	check.Must(t, err)
	for id := ""; id != last; {
		e, err := events.Recv()
		check.Must(t, err)
		if id = e.GetApproval().GetId(); id == taken {
			t.Error("it is notified of an approval that it cannot see")
		}
	}
	if a, err := approver.Get(t.Context(), "acme", taken); err != nil || a.State != approvals.Pending {
		t.Errorf("got %v, %v", a.State, err)
	}
}
