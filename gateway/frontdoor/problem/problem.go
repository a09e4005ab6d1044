package problem

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// OwnDomain is google.rpc.ErrorInfo.domain of the gateway's refusals; a capability has others.
const OwnDomain = "capgate.dev"

// ContentType is that of problem documents.
const ContentType = "application/problem+json"

// blank is the type of a problem of which no more is known than its status (RFC 9457 §4.2.1).
const blank = "about:blank"

// Problem is an error as RFC 9457 has it. Write fills in what follows from the rest and from the request.
type Problem struct {
	Type       string            `json:"type"`  // a path of this gateway, or about:blank
	Title      string            `json:"title"` // of the status
	Status     int               `json:"status"`
	Detail     string            `json:"detail,omitempty"`
	Code       string            `json:"code"`                  // the gRPC code, like INVALID_ARGUMENT
	Reason     string            `json:"reason,omitempty"`      // google.rpc.ErrorInfo.reason
	Metadata   map[string]string `json:"metadata,omitempty"`    // google.rpc.ErrorInfo.metadata
	RetryAfter float64           `json:"retry_after,omitempty"` // seconds, from google.rpc.RetryInfo
	RequestID  string            `json:"request_id,omitempty"`
	// 32 hexadecimal digits, of the trace that the request belongs to
	TraceID    string          `json:"trace_id,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`      // of a tool that failed, as in InvokeResponse
	ResultJSON []byte          `json:"result_json,omitempty"` // the same, where it is no JSON
}

// Own is an error that the gateway found: reason is one of docs/errors.md.
func Own(httpStatus int, c codes.Code, reason, detail string) Problem {
	return Problem{Type: typeOf(reason), Status: httpStatus, Detail: detail, Code: code.Code(c).String(), Reason: reason}
}

// statusOf is the HTTP status of one of the gateway's reasons, where it is not what its gRPC code has.
func statusOf(reason string, httpStatus int) int {
	switch reason {
	case "IDEMPOTENCY_KEY_REUSED": // draft-ietf-httpapi-idempotency-key-header §2.7
		return http.StatusUnprocessableEntity
	case "HOST_UNKNOWN": // RFC 9110 §15.5.20
		return http.StatusMisdirectedRequest
	}
	return httpStatus
}

// Of is the error of a gRPC call, the gateway's or a capability's. httpStatus is the gateway's table of HTTP
// statuses for gRPC codes.
func Of(err error, httpStatus func(codes.Code) int) Problem {
	st := status.Convert(err)
	p := Problem{Status: httpStatus(st.Code()), Detail: st.Message(), Code: code.Code(st.Code()).String()}
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			p.Reason, p.Metadata = d.GetReason(), d.GetMetadata()
			if d.GetDomain() == OwnDomain {
				p.Type = typeOf(d.GetReason())
				p.Status = statusOf(d.GetReason(), p.Status)
			}
		case *errdetails.RetryInfo:
			p.RetryAfter = max(d.GetRetryDelay().AsDuration(), 0).Seconds()
		}
	}
	return p
}

// typeOf is the URI reference of what explains a reason.
func typeOf(reason string) string {
	if reason == "" {
		return blank
	}
	return Path + "#" + reason
}

// In is p with what follows from its status and from the request that it answers.
func (p Problem) In(r *http.Request) Problem {
	if p.Status < 400 || p.Status > 599 {
		p.Status = http.StatusInternalServerError
	}
	if p.Type == "" {
		p.Type = blank
	}
	if p.Title = http.StatusText(p.Status); p.Title == "" {
		p.Title = "Client Closed Request" // 499, which has no entry in the standard's table
	}
	p.RequestID = r.Header.Get(RequestID)
	p.TraceID = traceOf(r)
	return p
}

// Write answers a request with p. What else the header is to hold is there already.
func Write(w http.ResponseWriter, r *http.Request, p Problem) {
	p = p.In(r)
	out, err := textOf(p)
	if err != nil {
		out = []byte(`{"type":"about:blank","title":"Internal Server Error","status":500,"code":"INTERNAL"}`)
		p.Status = http.StatusInternalServerError
	}
	out = append(out, '\n')
	head := w.Header()
	head.Set("Content-Type", ContentType)
	head.Set("Content-Length", strconv.Itoa(len(out)))
	if p.RetryAfter > 0 {
		head.Set("Retry-After", strconv.FormatFloat(math.Ceil(p.RetryAfter), 'f', 0, 64))
	}
	if p.Status == http.StatusUnauthorized {
		head.Set("WWW-Authenticate", Challenge(p.Reason))
	}
	w.WriteHeader(p.Status)
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(out) // the client may be gone; there is nobody left to tell
}

// HeaderTooLarge is the document for a request whose header was not read to its end: it has no id.
func HeaderTooLarge() []byte {
	p := Own(http.StatusRequestHeaderFieldsTooLarge, codes.ResourceExhausted, "HEADER_TOO_LARGE",
		"the header is longer than a request's may be")
	p.Title = http.StatusText(p.Status)
	out, _ := textOf(p) // it is always the same
	return append(out, '\n')
}

// TLSRequired is the document for a request in cleartext that was not read, as the port speaks TLS: it has no id.
func TLSRequired() []byte {
	p := Own(http.StatusBadRequest, codes.FailedPrecondition, "TLS_REQUIRED",
		"this port speaks TLS: ask it over https, or gRPC with TLS (capgate: --tls)")
	p.Title = http.StatusText(p.Status)
	out, _ := textOf(p) // it is always the same
	return append(out, '\n')
}

// TooMuch is the document for a request for which there was no room before anything was known of it: it has no id.
func TooMuch(reason, detail string) []byte {
	p := Own(http.StatusTooManyRequests, codes.ResourceExhausted, reason, detail)
	p.Title = http.StatusText(p.Status)
	out, _ := textOf(p) // it is always the same
	return append(out, '\n')
}

// textOf encodes p without escaping what only matters inside HTML.
func textOf(p Problem) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(p)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// Challenge is the WWW-Authenticate of who is refused for such a reason (RFC 9110 §15.5.2).
func Challenge(reason string) string {
	if reason == "CREDENTIAL_INVALID" || reason == "CREDENTIAL_EXPIRED" {
		return `Bearer error="invalid_token"` // RFC 6750 §3.1
	}
	return "Bearer"
}
