package status

import (
	"math"
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/internal/call"
)

// kindCodes holds the gRPC code of each kind of refusal.
var kindCodes = [...]codes.Code{
	call.Internal:           codes.Internal,
	call.InvalidArgument:    codes.InvalidArgument,
	call.NotFound:           codes.NotFound,
	call.PermissionDenied:   codes.PermissionDenied,
	call.Unauthenticated:    codes.Unauthenticated,
	call.ResourceExhausted:  codes.ResourceExhausted,
	call.FailedPrecondition: codes.FailedPrecondition,
	call.Unimplemented:      codes.Unimplemented,
	call.Unavailable:        codes.Unavailable,
	call.DeadlineExceeded:   codes.DeadlineExceeded,
	call.Canceled:           codes.Canceled,
	call.AlreadyExists:      codes.AlreadyExists,
	call.Aborted:            codes.Aborted,
	call.DataLoss:           codes.DataLoss,
	call.Unknown:            codes.Unknown,
}

// CodeOf returns the gRPC code of a kind of refusal.
func CodeOf(k call.Kind) codes.Code {
	if int(k) >= len(kindCodes) {
		return codes.Internal
	}
	return kindCodes[k]
}

// httpStatuses follows the comments of google/rpc/code.proto.
var httpStatuses = [...]int{
	codes.OK:                 http.StatusOK,
	codes.Canceled:           499, // client closed request; net/http has no name for it
	codes.Unknown:            http.StatusInternalServerError,
	codes.InvalidArgument:    http.StatusBadRequest,
	codes.DeadlineExceeded:   http.StatusGatewayTimeout,
	codes.NotFound:           http.StatusNotFound,
	codes.AlreadyExists:      http.StatusConflict,
	codes.PermissionDenied:   http.StatusForbidden,
	codes.ResourceExhausted:  http.StatusTooManyRequests,
	codes.FailedPrecondition: http.StatusBadRequest,
	codes.Aborted:            http.StatusConflict,
	codes.OutOfRange:         http.StatusBadRequest,
	codes.Unimplemented:      http.StatusNotImplemented,
	codes.Internal:           http.StatusInternalServerError,
	codes.Unavailable:        http.StatusServiceUnavailable,
	codes.DataLoss:           http.StatusInternalServerError,
	codes.Unauthenticated:    http.StatusUnauthorized,
}

// HTTP returns the HTTP status for a gRPC code; 500 for an unknown code.
func HTTP(code codes.Code) int {
	if int(code) >= len(httpStatuses) {
		return http.StatusInternalServerError
	}
	return httpStatuses[code]
}

// Codes of JSON-RPC 2.0, §5.1.
const (
	rpcInvalidParams = -32602
	rpcInternalError = -32603
	// RPCRefused is the code of rejections without a JSON-RPC code. Its range is reserved for servers (MCP 2026-07-28,
	// Base Protocol, "Error Codes").
	RPCRefused = -32000
)

// JSONRPC returns the JSON-RPC code for a gRPC code.
func JSONRPC(code codes.Code) int64 {
	switch code {
	case codes.InvalidArgument, codes.NotFound, codes.OutOfRange:
		return rpcInvalidParams
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return rpcInternalError
	}
	return RPCRefused
}

// reasonStatuses holds the HTTP statuses of reasons that differ from the status of their code.
var reasonStatuses = map[string]int{
	"ANSWER_CUT_OFF":         http.StatusBadGateway,
	"ARTIFACT_NOT_READ":      http.StatusBadGateway,
	"BODY_STALLED":           http.StatusRequestTimeout,
	"BODY_TOO_LARGE":         http.StatusRequestEntityTooLarge,
	"HOST_UNKNOWN":           http.StatusMisdirectedRequest,  // RFC 9110 §15.5.20
	"IDEMPOTENCY_KEY_REUSED": http.StatusUnprocessableEntity, // draft-ietf-httpapi-idempotency-key-header §2.7
	"METHOD_NOT_ALLOWED":     http.StatusMethodNotAllowed,
	"NOT_ACCEPTABLE":         http.StatusNotAcceptable,
	"UNSUPPORTED_ENCODING":   http.StatusUnsupportedMediaType,
	"UNSUPPORTED_MEDIA_TYPE": http.StatusUnsupportedMediaType,
	"UPLOAD_STALLED":         http.StatusRequestTimeout,
}

// HTTPOf returns the HTTP status of a rejection by the gateway. The code Unknown stands for an error that a backend
// reported in a response with status OK.
func HTTPOf(reason string, code codes.Code) int {
	if s := reasonStatuses[reason]; s != 0 {
		return s
	}
	if code == codes.Unknown {
		return http.StatusUnprocessableEntity
	}
	return HTTP(code)
}

// RetryAfter returns the Retry-After header for a time in seconds (RFC 9110 §10.2.3), rounded up; empty means none.
func RetryAfter(seconds float64) string {
	if seconds <= 0 {
		return ""
	}
	return strconv.FormatFloat(math.Ceil(seconds), 'f', 0, 64)
}

// Challenge returns the WWW-Authenticate header for a code and a reason with its metadata (RFC 6750 §3); empty means
// none.
func Challenge(code codes.Code, reason string, metadata map[string]string) string {
	switch {
	case code == codes.PermissionDenied && reason == "SCOPE_MISSING":
		return `Bearer error="insufficient_scope", scope="` + metadata["scope"] + `"`
	case code != codes.Unauthenticated:
		return ""
	case reason == "CREDENTIAL_INVALID" || reason == "CREDENTIAL_EXPIRED":
		return `Bearer error="invalid_token"`
	}
	return "Bearer"
}
