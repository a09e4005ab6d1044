package admin

import (
	"errors"

	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
)

// StatusOf returns the error of a service's method. The function toStatus is the gateway's table of gRPC codes for
// refusals. An error without a refusal, such as a status or the end of a context, stays as it is.
func StatusOf(err error, toStatus func(*call.Refusal) *status.Status) error {
	var refusal *call.Refusal
	if errors.As(err, &refusal) {
		return toStatus(refusal).Err()
	}
	return err
}
