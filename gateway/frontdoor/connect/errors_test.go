package connect

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// enveloped returns a short message of a stream of Connect.
func enveloped(text string) []byte {
	return append([]byte{0, 0, 0, 0, byte(len(text))}, text...)
}

// lastWords returns the error that ends a stream of Connect.
func lastWords(t *testing.T, body []byte) *errdetails.ErrorInfo {
	t.Helper()
	for len(body) >= 5 && body[0] == 0 {
		body = body[5+int(body[4]):]
	}
	var end struct {
		Error struct {
			Details []struct{ Value string }
		}
	}
	info := new(errdetails.ErrorInfo)
	if len(body) < 5 || json.Unmarshal(body[5:], &end) != nil || len(end.Error.Details) != 1 {
		t.Fatalf("the stream ends with %q", body)
	}
	packed, err := base64.RawStdEncoding.DecodeString(end.Error.Details[0].Value)
	check.Must(t, err)
	check.Must(t, proto.Unmarshal(packed, info))
	return info
}

// TestOnlyTheFirstMessageIsBeforeTheCall: a call is said not to have started only if no message of it was passed on.
func TestOnlyTheFirstMessageIsBeforeTheCall(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		messages   []string
		notStarted string
	}{
		"the first":  {[]string{"?"}, "true"},
		"the second": {[]string{"{}", "?"}, ""},
	} {
		srv := httptest.NewServer(New(&endless{over: make(chan struct{})}, Config{}))
		var body []byte
		for _, m := range test.messages {
			body = append(body, enveloped(m)...)
		}
		resp, err := http.Post(srv.URL+docpb.Capability_UploadInputArtifact_FullMethodName, "application/connect+json",
			bytes.NewReader(body))
		check.Must(t, err)
		got, err := io.ReadAll(resp.Body)
		check.Must(t, err)
		_ = resp.Body.Close()
		srv.Close()
		info := lastWords(t, got)
		if info.GetReason() != "REQUEST_MALFORMED" || info.GetMetadata()[call.NotStarted] != test.notStarted {
			t.Errorf("%s message is malformed: %v", name, info)
		}
	}
}

// TestOneReading: a message that JSON parsers read differently is rejected as a body of the JSON API is.
func TestOneReading(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(New(&endless{over: make(chan struct{})}, Config{}))
	t.Cleanup(srv.Close)
	for text, want := range map[string]string{
		`{"toolName":"a","toolName":"b"}`: "the message has a name twice in one object, at byte 16",
		`{"toolName":"\ud800"}`:           "the message has a lone surrogate at byte 13",
		`{"new":1e999}`:                   "the message has a number at byte 7 that is out of the range of a double",
		`{} {}`:                           "the message has more than one JSON value: the second begins at byte 3",
		`{"toolName":`:                    "the message is not JSON from byte 12 on",
		"\ufeff{}":                        "the message begins with a byte order mark",
	} {
		resp, err := http.Post(srv.URL+docpb.Capability_Invoke_FullMethodName, "application/json",
			strings.NewReader(text))
		check.Must(t, err)
		got, err := io.ReadAll(resp.Body)
		check.Must(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(got), want) {
			t.Errorf("%s: %s %s; want %s", text, resp.Status, got, want)
		}
	}
}

// TestErrorsOfCalls: a code that has no name is UNKNOWN, and no backend has a client believe that its key is wrong.
func TestErrorsOfCalls(t *testing.T) {
	t.Parallel()
	unauthenticated := func(domain string) error {
		st, err := grpcstatus.New(codes.Unauthenticated, "who?").
			WithDetails(&errdetails.ErrorInfo{Domain: domain, Reason: "CREDENTIAL_EXPIRED"})
		check.Must(t, err)
		return st.Err()
	}
	for name, test := range map[string]struct {
		err       error
		code      connect.Code
		challenge string
	}{
		"another":        {grpcstatus.Error(codes.NotFound, ""), connect.CodeNotFound, ""},
		"the last":       {grpcstatus.Error(codes.Unauthenticated, ""), connect.CodeUnauthenticated, "Bearer"},
		"without a name": {grpcstatus.Error(codes.Unauthenticated+1, ""), connect.CodeUnknown, ""},
		"of a backend":   {unauthenticated("example.com"), connect.CodeUnauthenticated, "Bearer"},
		"of the gateway": {unauthenticated(status.Domain), connect.CodeUnauthenticated, `Bearer error="invalid_token"`},
	} {
		err := errorOf(test.err)
		if err.Code() != test.code || err.Meta().Get("WWW-Authenticate") != test.challenge {
			t.Errorf("%s: %v, %v", name, err, err.Meta())
		}
	}
}

// TestMessagesAreKept: a message is its own, as the memory that it was read into is used for the next request.
func TestMessagesAreKept(t *testing.T) {
	t.Parallel()
	var m message
	memory := []byte("mine")
	check.Must(t, codec("proto").Unmarshal(memory, &m))
	copy(memory, "theirs")
	if string(m.data) != "mine" {
		t.Errorf("the message has become %q", m.data)
	}
}
