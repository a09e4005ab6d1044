package status

import (
	"net/http"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/internal/call"
)

// kindCodes holds the gRPC codes of the kinds of refusal.
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

// Challenge returns the WWW-Authenticate header for a reason (RFC 9110 §15.5.2).
func Challenge(reason string) string {
	if reason == "CREDENTIAL_INVALID" || reason == "CREDENTIAL_EXPIRED" {
		return `Bearer error="invalid_token"` // RFC 6750 §3.1
	}
	return "Bearer"
}
