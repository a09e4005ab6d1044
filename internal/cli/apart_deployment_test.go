package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// stranger is a tenant at one gateway, with the responses that it got.
type stranger struct {
	t         *testing.T
	name, key string
	addr      string
	conn      *grpc.ClientConn
	http      *http.Client
	pools     *pools
	alone     bool    // no other calls of the tenant
	admin     string  // of the gateway
	lateness  float64 // commands to Redis that failed at the gateway or were late
	secret    string  // values that other tenants send
	disclosed int     // responses that contained a secret
}

func newStranger(t *testing.T, name, key, addr string) *stranger {
	t.Helper()
	conn, err := clienttest.NewConn("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.Must(t, err)
	client := &http.Client{Transport: &http.Transport{}, Timeout: check.Patience}
	t.Cleanup(func() {
		_ = conn.Close()
		client.CloseIdleConnections()
	})
	return &stranger{t: t, name: name, key: key, addr: addr, conn: conn, http: client,
		pools: &pools{ids: map[string][]string{}}}
}

// perform executes an operation, and returns the whole response in a form that does not depend on time and
// random ids.
func (s *stranger) perform(op *operation) string {
	s.t.Helper()
	request := s.fill(op.request)
	header := make([]string, len(op.header))
	for i := range header {
		header[i] = s.fill(op.header[i])
	}
	key := s.key
	if op.credential != "" {
		key = s.fill(op.credential)
	}
	header = append(header, "authorization", "Bearer "+key)
	ctx, cancel := context.WithTimeout(s.t.Context(), check.Patience)
	defer cancel()
	// Other watches send nothing after their first response.
	once := op.method.IsStreamingServer() && strings.HasPrefix(string(op.method.FullName()), "grpc.health.")
	ask := func(request string) (response string) {
		for try := 0; ; try++ {
			if op.json {
				response = s.overHTTP(ctx, op, request, header)
			} else {
				response = s.overGRPC(ctx, op, request, header, once)
			}
			if has(response, s.secret) {
				s.disclosed++
			}
			if !aSilence.MatchString(response) || !s.again(try, response) {
				return response
			}
		}
	}
	response := ask(request)
	if op.method.FullName() == listKeys {
		response = s.listed(request, response, ask)
	}
	if s.alone {
		<-time.After(time.Millisecond) // approvals of one millisecond have no order
	}
	return s.normal(response)
}

// mostTries is the maximum number of attempts of an operation while Redis is late.
const mostTries = 3

// again reports whether an operation should be attempted again.
func (s *stranger) again(try int, response string) bool {
	s.t.Helper()
	if try+1 == mostTries || !s.late() {
		return false
	}
	s.t.Logf("%s: Redis is late: %s", s.name, response)
	return true
}

// late reports whether Redis was late or failed since the last call.
func (s *stranger) late() bool {
	s.t.Helper()
	_, text := page(s.t, "http://"+s.admin+"/metrics")
	before := s.lateness
	s.lateness = metric(s.t, text, "capgate_redis_errors_total") +
		metric(s.t, text, `capgate_affinity_lookups_total{result="timeout"}`)
	return s.lateness > before
}

// has reports whether a response contains text, also in bytes that JSON encodes as base64.
func has(response, text string) bool {
	if text == "" || strings.Contains(response, text) {
		return text != ""
	}
	for before := range 3 { // bytes share a digit with their neighbors
		digits := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + text))
		if strings.Contains(response, digits[(8*before+5)/6:(before+len(text))*8/6]) {
			return true
		}
	}
	return false
}

// fill inserts the ids of this deployment.
func (s *stranger) fill(text string) string {
	return regexp.MustCompile(`⟦(\w+):(\d+)⟧`).ReplaceAllStringFunc(text, func(ref string) string {
		var kind string
		var n int
		_, err := fmt.Sscanf(strings.NewReplacer("⟦", "", "⟧", "", ":", " ").Replace(ref), "%s %d", &kind, &n)
		check.Must(s.t, err)
		if own := s.pools.all(kind); n < len(own) {
			return own[n]
		}
		return "missing"
	})
}

// overGRPC reads until the stream ends. It reads a watch until the event that the test causes, or returns at
// once.
func (s *stranger) overGRPC(ctx context.Context, op *operation, request string, header []string, once bool) string {
	s.t.Helper()
	req := dynamicpb.NewMessage(op.method.Input())
	check.Must(s.t, protojson.Unmarshal([]byte(request), req))
	name := fmt.Sprintf("/%s/%s", op.method.Parent().FullName(), op.method.Name())
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, header...))
	defer cancel()
	stream, err := s.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, name)
	check.Must(s.t, err)
	if err := stream.SendMsg(req); err == nil {
		_ = stream.CloseSend()
	}
	var response strings.Builder
	fence := ""
	watches := op.method.FullName() == watch
	if watches && strings.Contains(request, `"last_event_id":"`) && !strings.Contains(request, `"last_event_id":""`) {
		fence = s.fence(header)
	}
	for {
		resp := dynamicpb.NewMessage(op.method.Output())
		if err = stream.RecvMsg(resp); err != nil {
			break
		}
		response.WriteString(compact(resp) + "\n")
		if once || fence != "" && strings.Contains(response.String(), fence) {
			return response.String()
		}
		if watches && fence == "" {
			fence = s.fence(header)
		}
	}
	first, _ := stream.Header()
	if err == io.EOF {
		err = nil
	}
	last := stream.Trailer()
	delete(last, "grpc-status-details-bin") // they are in the status too
	fmt.Fprintf(&response, "%v %v %s", map[string][]string(first), map[string][]string(last),
		compact(status.Convert(err).Proto()))
	if status.Code(err) == codes.DeadlineExceeded {
		s.t.Errorf("%s: no end: %s", op.text(), response.String())
	}
	return response.String()
}

func compact(m proto.Message) string {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return err.Error()
	}
	var b bytes.Buffer
	_ = json.Compact(&b, text)
	return b.String()
}

func (s *stranger) overHTTP(ctx context.Context, op *operation, request string, header []string) string {
	s.t.Helper()
	method, target, body := overHTTP(s.t, op.method, request)
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.addr+target, strings.NewReader(body))
	check.Must(s.t, err)
	req.Header.Set("X-Request-Id", "r") // otherwise each response has another one
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.http.Do(req)
	check.Must(s.t, err)
	defer resp.Body.Close()
	resp.Header.Del("Date")
	response := fmt.Sprintf("%s %v ", resp.Status, resp.Header)
	if resp.StatusCode == http.StatusOK && op.method.FullName() == watch {
		return response + s.events(resp.Body, header)
	}
	text, err := io.ReadAll(resp.Body)
	check.Must(s.t, err)
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return response + string(text)
	}
	return response + b.String()
}

// events reads server-sent events until the event that the test causes.
func (s *stranger) events(body io.Reader, header []string) string {
	fence, response := s.fence(header), ""
	for lines := bufio.NewScanner(body); lines.Scan(); {
		if !strings.HasPrefix(lines.Text(), ":") { // a comment keeps the connection alive
			response += lines.Text() + "\n"
		}
		if strings.HasPrefix(lines.Text(), "data:") && strings.Contains(lines.Text(), fence) {
			break
		}
	}
	return response
}

// fence requests an approval with a unique tool, which the caller of the request can see.
func (s *stranger) fence(header []string) string {
	s.t.Helper()
	ctx := metadata.AppendToOutgoingContext(s.t.Context(), "authorization", "Bearer "+s.key)
	if at := slices.Index(header, "x-user-id"); at >= 0 {
		ctx = metadata.AppendToOutgoingContext(ctx, header[at:at+2]...)
	}
	for try := 0; ; try++ {
		// No stored answer of another approval applies to this tool.
		_, err := docpb.NewCapabilityClient(s.conn).Invoke(ctx, &docpb.InvokeRequest{CapabilityId: "people",
			ToolName: fmt.Sprint("fence-", time.Now().UnixNano()), ArgsJson: []byte("{}")})
		response := compact(status.Convert(err).Proto())
		if s.learn(response); clienttest.Reason(err) == "APPROVAL_REQUIRED" &&
			clienttest.Metadata(err, "approval") != "" {
			return clienttest.Metadata(err, "approval")
		}
		if !s.again(try, response) {
			s.t.Fatalf("the approval that ends a watch was not created: %s", response)
		}
	}
}

// drawn has patterns of random values, by kind.
var drawn = []struct {
	kind string
	in   *regexp.Regexp
}{
	{"credential", regexp.MustCompile("(" + aCredential.String() + ")")},
	{"own", regexp.MustCompile(`$^`)}, // known to a tenant before
	{"approval", regexp.MustCompile(`(apr_[A-Z2-7]{9,})`)},
	{"token", regexp.MustCompile(`"next_page_token":"([^"]{4,})"`)},
	{"artifact", regexp.MustCompile(`"capability_artifact_id":"([^"]+)"`)},
	{"key", drawnKey},
	{"request", regexp.MustCompile(`"request_id":"([A-Z2-7]{26})"`)},
	{"session of a message", regexp.MustCompile(`"session_id":"([A-Z2-7]{26})"`)},
	{"event", regexp.MustCompile(`(?m)(?:"id":"|^id: ?)(\d+-\d+)`)},
}

var drawnKey = regexp.MustCompile(`"id":"([a-z2-7]{16})"`)

func (s *stranger) learn(response string) {
	for _, d := range drawn {
		for _, id := range d.in.FindAllStringSubmatch(response, -1) {
			if d.kind != "key" || !slices.Contains(s.pools.all("own"), id[1]) {
				s.pools.add(d.kind, id[1])
			}
		}
	}
}

var (
	aTime      = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*Z|"p[59]0": ?"[.\d]+s"`)
	aSignature = regexp.MustCompile(`signature=[\w.%-]+`)
	aTag       = regexp.MustCompile(`Etag:\[[^\]]*\]`)
	// aSilence matches a response to Redis having been late, as on a busy machine, here after 10 s. The
	// operation is repeated if the gateway has counted that, at most mostTries times. Effects of tenants on
	// each other's timing are not visible here; tests of shares and limits cover them.
	aSilence = regexp.MustCompile(
		`"reason":"(POLICY_UNKNOWN|(ARTIFACTS|IDENTITY|TENANTS|APPROVALS|POLICIES|CATALOG|ENGINE_STATE|SIGNATURES)_UNAVAILABLE)"`)

	aLength = regexp.MustCompile(`Content-Length:\[(\d+)\]`)
	aFence  = regexp.MustCompile(`\d{19}`)
)

// normal replaces random values, and the tags and lengths of what contains them.
func (s *stranger) normal(response string) string {
	s.learn(response)
	before := response
	for _, d := range drawn {
		for i, id := range s.pools.all(d.kind) {
			if strings.Contains(response, id) {
				response = regexp.MustCompile(`\b`+regexp.QuoteMeta(id)+`\b`).ReplaceAllString(response,
					fmt.Sprintf("<%s %d>", d.kind, i))
			}
		}
	}
	response = aSignature.ReplaceAllString(response, "signature=<signature>")
	response = aFence.ReplaceAllString(aTime.ReplaceAllString(response, "<time>"), "<now>")
	if response == before {
		return response
	}
	shorter := len(before) - len(response)
	response = aLength.ReplaceAllStringFunc(response, func(in string) string {
		length, err := strconv.Atoi(aLength.FindStringSubmatch(in)[1])
		check.Must(s.t, err)
		return fmt.Sprintf("Content-Length:[%d]", length-shorter)
	})
	return aTag.ReplaceAllString(response, "Etag:[<tag>]")
}

// overHTTP returns an operation as an HTTP request, with its ids filled in.
func overHTTP(t *testing.T, m protoreflect.MethodDescriptor, request string) (method, target, body string) {
	t.Helper()
	fields := map[string]any{}
	check.Must(t, json.Unmarshal([]byte(request), &fields))
	rule := httpRule(m)
	for verb, path := range map[string]string{"GET": rule.GetGet(), "POST": rule.GetPost(), "PATCH": rule.GetPatch(),
		"PUT": rule.GetPut(), "DELETE": rule.GetDelete()} {
		if path != "" {
			method, target = verb, path
		}
	}
	if m.FullName() == watch {
		method, target = "GET", rest.EventsPath
	}
	target = regexp.MustCompile(`\{[a-z_.]+\}`).ReplaceAllStringFunc(target, func(in string) string {
		name, nested, _ := strings.Cut(strings.Trim(in, "{}"), ".")
		value := fields[name]
		if message, ok := value.(map[string]any); ok {
			value = message[nested]
		} else {
			delete(fields, name)
		}
		if value == nil {
			value = ""
		}
		return url.PathEscape(fmt.Sprint(value))
	})
	sent := fields[rule.GetBody()]
	if rule.GetBody() == "*" {
		sent = fields
	}
	if sent != nil {
		text, err := json.Marshal(sent)
		check.Must(t, err)
		body = string(text)
	}
	query := url.Values{}
	for name, value := range fields {
		if _, whole := value.(map[string]any); !whole && rule.GetBody() != "*" {
			query.Set(name, fmt.Sprint(value))
		}
	}
	return method, target + "?" + query.Encode(), body
}
