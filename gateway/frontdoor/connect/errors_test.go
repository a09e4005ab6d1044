package connect

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
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

// enveloped is a short message of a stream of Connect.
func enveloped(text string) []byte {
	return append([]byte{0, 0, 0, 0, byte(len(text))}, text...)
}

// lastWords is the error that ends a stream of Connect.
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
