package app

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestAPortThatFailsEndsTheProcess: a failing port ends the process with the reason, so that its supervisor restarts
// it.
func TestAPortThatFailsEndsTheProcess(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Listen, cfg.Admin = "127.0.0.1:0", "127.0.0.1:0"
	p, err := New(&settings.Settings{Config: cfg}, Options{Log: io.Discard})
	check.Must(t, err)
	check.Must(t, p.ports.public.Close())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(context.Background()) }()
	if err := check.Received(t, ended, "the process to end"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v, want that the port was closed", err)
	}
}
