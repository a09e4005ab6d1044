package app

import (
	"context"
	"sync"

	"github.com/capgate/capgate/internal/fleetplan"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/router"
)

// feature is a part of the process. All functions are optional.
type feature struct {
	// build constructs the feature, and adds it to the parts of the gateway.
	build func(*App) error
	// prepare readies a change. An error rejects the change before any feature has applied it.
	prepare func(*App, *change) error
	// apply puts a change into effect. A field that no feature applies has the tag restart.
	apply func(*App, *change)
	// run reads what must be known before the first call, and starts the feature's goroutines.
	run func(*App, *work)
	// close releases what build has opened. It is also called after a failed build.
	close func(*App)
}

// change is a new state of the configuration, or of the backends that DNS and registrations add to it.
type change struct {
	*settings.Settings
	*fleetplan.Plan
	table    *router.Table
	reloaded bool // the settings are new; false: only backends have changed
}

// work runs the goroutines of features.
type work struct {
	start   context.Context //nolint:containedctx // of the reads before the first call; it ends when the drain begins
	serving context.Context //nolint:containedctx // ends after the last call
	all     sync.WaitGroup
	served  []func() // called after the last call, before serving ends
}

// loop runs f until the last call has ended. A panic of f is logged, and f runs again.
func (w *work) loop(name string, f func(context.Context)) {
	w.all.Go(recovery.Loop(w.serving, name, func() { f(w.serving) }))
}

// watch runs f, which handles its own panics, until the last call has ended.
func (w *work) watch(f func(context.Context)) { w.all.Go(func() { f(w.serving) }) }

// untilDrain runs f until the drain begins.
func (w *work) untilDrain(name string, f func(context.Context)) {
	w.all.Go(recovery.Loop(w.start, name, func() { f(w.start) }))
}
