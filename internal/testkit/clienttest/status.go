package clienttest

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

// ErrorInfo returns the google.rpc.ErrorInfo of an error. If there is none, it returns nil, which has an empty reason.
func ErrorInfo(err error) *errdetails.ErrorInfo {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	return nil
}

// Reason returns the reason of an error's ErrorInfo; "" if it has none.
func Reason(err error) string { return ErrorInfo(err).GetReason() }

// Metadata returns a value of an error's ErrorInfo; "" if it has none.
func Metadata(err error, key string) string { return ErrorInfo(err).GetMetadata()[key] }
