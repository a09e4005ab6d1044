package tools

import (
	"context"
	"errors"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
)

// watcher watches the lists of a caller. It implements mcp.Watch.
type watcher struct {
	views   *views
	view    *view
	notify  func()
	told    *listSums       // at the last Next that returned a change; nil means none yet
	valid   context.Context //nolint:containedctx // ends with the credential; nil means it is not checked
	forget  func()          // ends the checks of the credential
	release func()
}

// Watch implements mcp.Catalog.
func (t toolsOf) Watch(ctx context.Context, notify func()) (mcp.Watch, error) {
	caller := &web.From(ctx).Identity
	if refusal := listable(caller); refusal != nil {
		return nil, status.Answer(refusal).Err()
	}
	release, err := t.watchers.Take(caller.Tenant)
	if err != nil {
		var refusal *call.Refusal
		if errors.As(err, &refusal) {
			err = status.Answer(refusal).Err()
		}
		return nil, err
	}
	w := &watcher{views: t.views, notify: notify, release: release}
	if stillValid := t.StillValid; t.Follow != nil {
		var cancel context.CancelFunc
		w.valid, cancel = t.Follow(context.Background(),
			func(ctx context.Context) bool { return stillValid(ctx, caller) })
		stop := context.AfterFunc(w.valid, notify)
		w.forget = func() { stop(); cancel() }
	}
	w.view = t.views.join(caller, w)
	return w, nil
}

// Over implements mcp.Watch.
func (w *watcher) Over() bool {
	return w.views.leaving.Err() != nil || w.valid != nil && w.valid.Err() != nil
}

// Next implements mcp.Watch.
func (w *watcher) Next() (changed mcp.Lists, err error) {
	sums, err := w.view.last()
	switch {
	case err != nil, sums == nil, sums == w.told:
		return 0, err
	case w.told == nil:
		changed = mcp.AllLists
	default:
		changed = sums.differing(w.told)
	}
	w.told = sums
	return changed, nil
}

// Stop implements mcp.Watch.
func (w *watcher) Stop() {
	if w.forget != nil {
		w.forget()
	}
	w.views.leave(w.view, w)
	w.release()
}
