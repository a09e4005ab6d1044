package connect

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

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
		srv := httptest.NewServer(New((&endless{over: make(chan struct{})}).calls(), Config{}))
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
	srv := httptest.NewServer(New((&endless{over: make(chan struct{})}).calls(), Config{}))
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
		code      codes.Code
		challenge string
	}{
		"another":        {grpcstatus.Error(codes.NotFound, ""), codes.NotFound, ""},
		"the last":       {grpcstatus.Error(codes.Unauthenticated, ""), codes.Unauthenticated, "Bearer"},
		"without a name": {grpcstatus.Error(codes.Unauthenticated+1, ""), codes.Unknown, ""},
		"of a backend":   {unauthenticated("example.com"), codes.Unauthenticated, "Bearer"},
		"of the gateway": {unauthenticated(status.Domain), codes.Unauthenticated, `Bearer error="invalid_token"`},
	} {
		failed := failureOf(test.err, call.Sent)
		if failed.status.Code() != test.code || failed.meta.Get("WWW-Authenticate") != test.challenge {
			t.Errorf("%s: %v, %v", name, failed, failed.meta)
		}
	}
}

// TestErrorsInTheFormOfConnectGo: every code, texts that need an encoding, and details have the form that connect-go
// gives them.
func TestErrorsInTheFormOfConnectGo(t *testing.T) {
	t.Parallel()
	reference := connect.NewErrorWriter()
	info, err := anypb.New(&errdetails.ErrorInfo{Domain: "a.example", Reason: "<R>"})
	check.Must(t, err)
	unknown := &anypb.Any{TypeUrl: "example.com/a.B", Value: []byte{1, 2}}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		for _, text := range []string{"", "plain", "100% naïve\n<&>\x7f"} {
			st := &spb.Status{Code: int32(code), Message: text, Details: []*anypb.Any{info, unknown}}
			want := connect.NewError(connect.Code(code), errors.New(text))
			if code == codes.Unauthenticated {
				want.Meta().Set("WWW-Authenticate", "Bearer")
			}
			for _, d := range st.GetDetails() {
				detail, err := connect.NewErrorDetail(d)
				check.Must(t, err)
				want.AddDetail(detail)
			}
			for _, typ := range []string{"application/grpc-web+proto", "application/connect+json", "application/json"} {
				r := httptest.NewRequest(http.MethodPost, "/a.B/C", nil)
				r.Header.Set("Content-Type", typ)
				got, wanted := httptest.NewRecorder(), httptest.NewRecorder()
				check.Must(t, reference.Write(wanted, r, want))
				targetOf(r).refuse(got, r, grpcstatus.ErrorProto(st))
				if got.Code != wanted.Code || got.Body.String() != wanted.Body.String() ||
					!maps.EqualFunc(got.Header(), wanted.Header(), slices.Equal) {
					t.Errorf("%s, %v, %q:\n%d %v %s\nwant\n%d %v %s", typ, code, text, got.Code, got.Header(), got.Body,
						wanted.Code, wanted.Header(), wanted.Body)
				}
			}
		}
	}
}

// TestBodiesThatAreOneMessage: a message that was cut off, or is followed by something, is not served as one.
func TestBodiesThatAreOneMessage(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		"\x00\x00\x00\x00\x00": true, "\x00\x00\x00\x00\x01a": true, "": false, "\x00\x00\x00\x00": false,
		"\x00\x00\x00\x00\x01": false, "\x00\x00\x00\x00\x00a": false, "\x01\x00\x00\x00\x00": false,
		"\x80\x00\x00\x00\x00": false,
	} {
		if isOne([]byte(body)) != want {
			t.Errorf("%q: %t", body, !want)
		}
	}
}
