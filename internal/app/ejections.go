package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/capgate/capgate/router"
)

// ejections logs the router's ejections off the path of calls, which must not wait for the log. Events beyond
// the buffer are not logged. Metrics count all.
type ejections chan ejection

type ejection struct {
	backend *router.Backend
	why     router.Class
	lasts   time.Duration
}

func newEjections() ejections { return make(ejections, 64) }

func (e ejections) report(b *router.Backend, why router.Class, lasts time.Duration) {
	select {
	case e <- ejection{b, why, lasts}:
	default:
	}
}

// run logs until ctx ends.
func (e ejections) run(ctx context.Context, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case x := <-e:
			log.Warn("backend ejected", "capability", x.backend.Capability, "backend", x.backend.Addr,
				"because", x.why.String(), "for", x.lasts.String())
		}
	}
}
