package problem

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/plainjson"
)

// ContentType is the media type of problem documents.
const ContentType = "application/problem+json"

// blank is the type of a problem without more information than its status (RFC 9457 §4.2.1).
const blank = "about:blank"

// Problem is an error of RFC 9457. Write completes the fields that follow from others and from the request.
type Problem struct {
	Type       string            `json:"type"`  // a path of this gateway, or about:blank
	Title      string            `json:"title"` // of the status
	Status     int               `json:"status"`
	Detail     string            `json:"detail,omitempty"`
	Code       string            `json:"code"`                  // gRPC code, such as INVALID_ARGUMENT
	Reason     string            `json:"reason,omitempty"`      // google.rpc.ErrorInfo.reason
	Metadata   map[string]string `json:"metadata,omitempty"`    // google.rpc.ErrorInfo.metadata
	RetryAfter float64           `json:"retry_after,omitempty"` // seconds, from google.rpc.RetryInfo
	// Details of a backend's status, from status.DetailsJSON.
	Details   []json.RawMessage `json:"details,omitempty"`
	RequestID string            `json:"request_id,omitempty"`
	// TraceID is the trace of the request: 32 hexadecimal digits.
	TraceID    string          `json:"trace_id,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`      // result of a failed tool, as in InvokeResponse
	ResultJSON []byte          `json:"result_json,omitempty"` // the same, if it is not JSON

	JSONRPC int64 `json:"-"` // JSON-RPC code, for MCP
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// Own returns an error of the gateway. reason must be in docs/errors.md.
func Own(httpStatus int, c codes.Code, reason, detail string) Problem {
	return Problem{Type: typeOf(reason), Status: httpStatus, Detail: detail, Code: code.Code(c).String(),
		Reason: reason}
}

// NotStarted returns p with the metadata of a call that no backend received.
func (p Problem) NotStarted() Problem {
	said := map[string]string{call.NotStarted: "true"}
	maps.Copy(said, p.Metadata)
	p.Metadata = said
	return p
}

// Of returns the problem for an error: a call.Refusal of a call that was not sent, or the error of a gRPC call, of the
// gateway or a capability.
func Of(err error) Problem {
	var own *call.Refusal
	if errors.As(err, &own) {
		err = status.Of(own, call.NotSent).Err()
	}
	st, d := grpcstatus.Convert(err), status.DetailsOf(err)
	p := Problem{Status: status.HTTP(st.Code()), Detail: st.Message(), Code: code.Code(st.Code()).String(),
		Reason: d.Info.GetReason(), Metadata: d.Info.GetMetadata(), RetryAfter: d.RetryAfter.Seconds()}
	if d.Own != nil {
		p.Type = typeOf(d.Own.GetReason())
		p.Status = status.HTTPOf(d.Own.GetReason(), st.Code())
	} else {
		p.Details = status.DetailsJSON(st)
	}
	return p
}

// Challenge returns the WWW-Authenticate header of a response with p; empty means none.
func (p Problem) Challenge() string {
	if p.Type == "" || p.Type == blank { // the reason is that of a backend
		p.Reason = ""
	}
	return status.Challenge(codes.Code(code.Code_value[p.Code]), p.Reason, p.Metadata)
}

// typeOf returns the URI reference of a reason's explanation.
func typeOf(reason string) string {
	if reason == "" {
		return blank
	}
	return Path + "#" + reason
}

// In returns p with the fields that follow from its status and from the request.
func (p Problem) In(r *http.Request) Problem {
	if p.Status < 400 || p.Status > 599 {
		p.Status = http.StatusInternalServerError
	}
	if p.Type == "" {
		p.Type = blank
	}
	if p.Title = http.StatusText(p.Status); p.Title == "" {
		p.Title = "Client Closed Request" // 499 is unknown to net/http
	}
	p.RequestID = r.Header.Get(RequestID)
	p.TraceID = traceOf(r)
	return p
}

// Write responds with a problem, and records the rejection of the request. The caller may set further headers before.
func Write(w http.ResponseWriter, r *http.Request, p Problem) {
	p = p.In(r)
	request.Rejected(r.Context(), codes.Code(code.Code_value[p.Code]), p.Reason)
	out, err := plainjson.Marshal(p)
	if err != nil {
		out = []byte(`{"type":"about:blank","title":"Internal Server Error","status":500,"code":"INTERNAL"}`)
		p.Status = http.StatusInternalServerError
	}
	out = append(out, '\n')
	head := w.Header()
	head.Set("Content-Type", ContentType)
	head.Set("Content-Length", strconv.Itoa(len(out)))
	if after := status.RetryAfter(p.RetryAfter); after != "" {
		head.Set("Retry-After", after)
	}
	if challenge := p.Challenge(); challenge != "" {
		head.Set("WWW-Authenticate", challenge)
	}
	w.WriteHeader(p.Status)
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(out) // an error means that the client has disconnected
}

// HeaderTooLarge returns the document for a request whose header was not read to its end. It has no request id.
func HeaderTooLarge() []byte {
	p := Own(http.StatusRequestHeaderFieldsTooLarge, codes.ResourceExhausted, "HEADER_TOO_LARGE",
		"the header of the request is too large")
	p.Title = http.StatusText(p.Status)
	out, _ := plainjson.Marshal(p) // constant
	return append(out, '\n')
}

// TLSRequired returns the document for a cleartext request to a TLS port. It has no request id.
func TLSRequired() []byte {
	p := Own(http.StatusBadRequest, codes.FailedPrecondition, "TLS_REQUIRED",
		"this port speaks TLS: use https, or gRPC with TLS (capgate: --tls)")
	p.Title = http.StatusText(p.Status)
	out, _ := plainjson.Marshal(p) // constant
	return append(out, '\n')
}

// TooMuch returns the document for a request that was rejected before it was read. It has no request id.
func TooMuch(reason, detail string) []byte {
	p := Own(http.StatusTooManyRequests, codes.ResourceExhausted, reason, detail)
	p.Title = http.StatusText(p.Status)
	out, _ := plainjson.Marshal(p) // constant
	return append(out, '\n')
}
