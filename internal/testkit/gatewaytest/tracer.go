package gatewaytest

import (
	"context"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/internal/testkit/check"
)

// Tracer sends spans to a collector, until the test ends.
func Tracer(t *testing.T, collector string, sample float64) *tracing.Tracer {
	t.Helper()
	tracer, err := tracing.New(tracing.Config{Endpoint: collector, Sample: sample, Follow: true, Version: "v1",
		Instance: "gw-1", Delay: time.Millisecond})
	check.Must(t, err)
	check.Cleanup(t, func() {
		ctx, cancel := context.WithTimeout(context.Background(), check.Patience)
		defer cancel()
		tracer.Close(ctx)
	})
	return tracer
}
