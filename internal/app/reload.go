package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/router"
)

// Intervals of the checks for changed files. A changed file is loaded when two checks in a row see the same
// content, because it may be incomplete. While files keep changing, checks are more frequent; after a maximum
// number of checks the files are loaded anyway. An incomplete file is then invalid and changes nothing.
const (
	lookInterval = time.Second
	settle       = 400 * time.Millisecond // until files that differed at restless looks are looked at again
	maxUnsettled = 3
	lastLook     = 13 // that differs in a row, after some eight seconds
)

// reloader keeps a process as its configuration says. All changes of its fleets are made
// here, by one goroutine and one after another.
type reloader struct {
	process *App
	wake    chan struct{} // backends of a source have changed
	loads   atomic.Pointer[loads]

	current *settings.Settings // in force
	tried   settings.Files     // of the newest files, loaded or invalid
	seen    settings.Files     // of what differed at the last look; nil: nothing
	differ  int                // checks in a row that saw a change
	again   <-chan time.Time   // when to look before the next interval is over; nil: not
}

// reloadFeature loads the configuration again when its files change, and changes fleets when their backends do. It runs
// last: from then on its goroutine alone changes fleets.
func reloadFeature() feature {
	return feature{
		build: func(p *App) error {
			p.fleets.reloader = newReloader(p, p.started)
			return p.metrics.Add(p.fleets.reloader)
		},
		run: func(p *App, w *work) { w.loop("reload", p.fleets.reloader.run) },
	}
}

func newReloader(p *App, s *settings.Settings) *reloader {
	r := &reloader{process: p, wake: make(chan struct{}, 1), current: s, tried: s.Files}
	r.loads.Store(&loads{at: time.Now()})
	return r
}

// nudge makes the fleets anew before long. It does not block, and many cost as one.
func (r *reloader) nudge() {
	signal.Wake(r.wake)
}

// run looks at the files, listens to SIGHUP and is nudged until ctx ends.
func (r *reloader) run(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.process.options.HangUp:
			if r.process.audit != nil {
				r.process.audit.Reopen()
			}
			r.load("SIGHUP")
		case <-r.wake:
			if err := r.apply(r.current); err != nil {
				r.process.log.Error("fleets not changed", "error", err)
			}
		case <-ticker.C:
			r.look()
		case <-r.again:
			r.look()
		}
	}
}

// look loads the files if they have changed since they were loaded.
func (r *reloader) look() {
	if r.process.options.File == "" {
		return
	}
	now := r.tried.Recheck()
	r.again = nil
	switch {
	case now.Equal(r.tried):
		r.seen, r.differ = nil, 0
	case r.seen != nil && now.Equal(r.seen):
		r.seen, r.differ = nil, 0
		r.load("the file changed")
	case r.differ >= lastLook:
		r.seen, r.differ = nil, 0
		r.load("the file keeps changing")
	default:
		r.seen = now
		if r.differ++; r.differ >= maxUnsettled {
			r.again = time.After(settle)
		}
	}
}

// load loads the files. If the configuration is bad the one in force stays, but what
// files hold that it names is taken: certificates expire.
func (r *reloader) load(because string) {
	if r.process.options.File == "" {
		return
	}
	files := settings.Files{}
	cfg, bad := settings.ParseFile(r.process.options.File, r.process.options.Overrides, files)
	if bad != nil {
		cfg = r.current.Config
	}
	s, err := settings.WithFiles(cfg, files, r.current)
	r.tried = files
	if err == nil {
		err = r.apply(s)
	}
	before := r.loads.Load()
	if err = errors.Join(bad, err); err != nil {
		r.loads.Store(before.failed(err))
		logFailure(r.process.log, r.process.options.File, err)
		return
	}
	restart := r.process.started.NeedsRestart(s)
	r.loads.Store(before.succeeded(restart))
	r.process.audit.RecordChange(&audit.Change{Actor: "process", What: "config.loaded",
		Targets: []audit.Target{{Name: "because", Value: because}}})
	r.process.log.Info("configuration loaded", "file", r.process.options.File, "because", because, "fleets",
		len(cfg.Fleets))
	if len(restart) > 0 {
		r.process.log.Warn("some of the configuration needs a restart", "fields", restart)
	}
}

// apply puts settings into effect, together with the backends of its sources. After an error nothing has changed.
func (r *reloader) apply(s *settings.Settings) error {
	p, reloaded := r.process, s != r.current
	if reloaded {
		p.fleets.sources.Try(sourceSettings(s.Config))
		p.fleets.await()
	}
	next := p.fleets.planner.Plan(s, p.fleets.sources.Members())
	table, err := router.NewTable(next.Routes, p.fleets.routing.Table())
	if err == nil {
		err = p.apply(&change{Settings: s, Plan: next, table: table, reloaded: reloaded})
	}
	if err != nil && reloaded {
		p.fleets.sources.Try(sourceSettings(r.current.Config))
		p.fleets.await() // the next plan is made of its backends
	}
	if reloaded {
		p.fleets.sources.Commit()
	}
	if err != nil {
		return err
	}
	r.current = s
	return nil
}

// maxProblems bounds the logged problems of one file.
const maxProblems = 5

func moreProblems(n int) string {
	if n == 1 {
		return "and 1 more problem"
	}
	return fmt.Sprintf("and %d more problems", n)
}

// logFailure has one line for each of the first problems.
func logFailure(log *slog.Logger, file string, err error) {
	const what = "configuration not loaded; the previous one stays in effect"
	problems := settings.Problems(err)
	for i, problem := range problems {
		if i == maxProblems {
			log.Error(what, "file", file, "reason", moreProblems(len(problems)-i))
			return
		}
		var at strictyaml.Error
		if errors.As(problem, &at) {
			log.Error(what, "file", at.File, "line", at.Line, "field", at.Path, "reason", at.Text)
		} else {
			log.Error(what, "file", file, "reason", problem.Error())
		}
	}
}
