package redisstore

import (
	"context"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/capgate/capgate/policy/approvals"
)

// bindingFields are the fields and values of a binding.
func bindingFields(w *approvals.Binding) []any {
	return []any{
		"user", w.User, "agent", w.Agent, "capability", w.Capability, "tool", w.Tool,
		"schema", hex.EncodeToString(w.Schema[:]), "arguments", hex.EncodeToString(w.ArgsHash[:]),
		"session", w.Session, "thread", w.Thread, approvals.SettingsField, hex.EncodeToString(w.Settings[:]),
	}
}

// approvalFields are the fields of a new approval.
func approvalFields(r *approvals.Record) []any {
	return append(bindingFields(&r.Binding), "id", r.ID, "description", r.Description, "request", r.RequestID, "trace",
		r.Trace, "change", r.Change,
		"level", r.Level, "why", r.Why, "preview", r.Preview, "value", r.Value, "sealed", r.Sealed,
		"whole", strconv.FormatBool(r.Whole))
}

// record parses the fields of an approval. A malformed one is absent.
func (a *ApprovalStore) record(tenant string, fields any) (approvals.Record, error) {
	f := pairs(fields)
	if !a.signed(tenant, f["id"], f) {
		return approvals.Record{}, approvals.ErrUnknown
	}
	return a.recordOf(tenant, f)
}

// recordOf is record for fields whose signature is verified.
func (a *ApprovalStore) recordOf(tenant string, f map[string]string) (approvals.Record, error) {
	r := approvals.Record{Sealed: []byte(f["sealed"])}
	r.ID, r.Session, r.Thread = f["id"], f["session"], f["thread"]
	r.Description, r.RequestID, r.Trace, r.Change = f["description"], f["request"], f["trace"], f["change"]
	r.Level, r.Why, r.Preview, r.By, r.Comment = f["level"], f["why"], f["preview"], f["by"], f["comment"]
	r.Value, r.Whole = f["value"], f["whole"] == "true"
	r.Tenant, r.User, r.Agent, r.Capability, r.Tool = tenant, f["user"], f["agent"], f["capability"], f["tool"]
	state, known := approvals.ParseState(f["state"])
	remember, alsoKnown := approvals.ParseRemember(f["remember"])
	r.State, r.Remember = state, remember
	ok := known && alsoKnown && r.ID != "" && decodeHex(r.Schema[:], f["schema"]) && decodeHex(r.ArgsHash[:],
		f["arguments"]) &&
		// an older approval has none
		(f[approvals.SettingsField] == "" || decodeHex(r.Settings[:], f[approvals.SettingsField])) &&
		parseMillis(&r.Created, f["created"]) && parseMillis(&r.Expires, f["expires"])
	for name, t := range map[string]*time.Time{"answered": &r.Answered, "changed": &r.Changed} {
		if f[name] != "" {
			ok = ok && parseMillis(t, f[name])
		}
	}
	if !ok {
		a.malformed(a.key("{TENANT:approvals}", tenant))
		return approvals.Record{}, approvals.ErrUnknown
	}
	a.addGiven(&r, f)
	return r, nil
}

func parseMillis(t *time.Time, text string) bool {
	ms, err := strconv.ParseInt(text, 10, 64)
	*t = time.UnixMilli(ms)
	return err == nil && ms >= 0
}

const (
	// scanEntries is the number of index entries that one script visits.
	scanEntries = 200
	// maxScans bounds the scripts for one page, which may then be short.
	maxScans = 20
)

// List implements approvals.ReviewStore.
func (a *ApprovalStore) List(
	ctx context.Context, tenant string, f approvals.Filter, after string, most int,
) (page []approvals.Record, next string, err error) {
	state := ""
	if f.State != 0 {
		state = f.State.String()
	}
	var wanted []any
	for _, w := range [][2]string{{"user", f.User}, {"agent", f.Agent}, {"capability", f.Capability},
		{"tool", f.Tool}} {
		if w[1] != "" {
			wanted = append(wanted, w[0], w[1])
		}
	}
	for range maxScans {
		reply, err := a.exec(ctx, listScript, tenant, append([]any{after, most - len(page), scanEntries, state},
			wanted...)...)
		if err != nil {
			return nil, "", err
		}
		if len(reply) != 2 {
			return nil, "", errApprovals
		}
		list, _ := reply[1].([]any)
		for _, fields := range list {
			if r, err := a.record(tenant, fields); err == nil && (f.Sees == nil || f.Sees(r.Capability)) {
				page = append(page, r)
			}
		}
		if after = textAt(reply, 0); after == "" || len(page) >= most {
			break
		}
	}
	return page, after, nil
}

// Events implements approvals.ReviewStore.
func (a *ApprovalStore) Events(
	ctx context.Context, tenant, after string, most int,
) (events []approvals.RecordEvent, last string, err error) {
	reply, err := a.exec(ctx, eventsScript, tenant, after, most)
	if err != nil {
		return nil, "", err
	}
	if len(reply) != 3 {
		return nil, "", errApprovals
	}
	if missed, _ := reply[1].(int64); missed == 1 {
		events = append(events, approvals.RecordEvent{ID: after, Kind: approvals.EventsLost})
	}
	list, _ := reply[2].([]any)
	for _, each := range list {
		e, _ := each.([]any)
		if len(e) != 4 {
			return nil, "", errApprovals
		}
		event := approvals.RecordEvent{ID: textAt(e, 0), Kind: approvals.Kind(textAt(e, 1))}
		if fields, _ := e[3].([]any); len(fields) > 0 {
			event.Record, _ = a.record(tenant, fields)
		}
		if event.Record.ID == "" {
			event.Record.Tenant, event.Record.ID = tenant, textAt(e, 2)
		}
		events = append(events, event)
	}
	return events, textAt(reply, 0), nil
}
