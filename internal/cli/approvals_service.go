package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/admin/approval"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
)

// newApprovals returns the approvals service with its endpoints.
func (p *process) newApprovals(s *settings, metrics *telemetry.Metrics) (err error) {
	cfg := s.cfg.Approvals
	o := approvals.Options{Current: p.current, Secrets: p.secretsOf, Keys: s.approvalKeys, TTL: cfg.TTL, SessionTTL: cfg.SessionTTL,
		MaxOpen: cfg.MaxPending}
	o.Answered = func(a *approvals.Approval) { metrics.ObserveAnswer(a.Tenant, a.Answered.Sub(a.Created)) }
	if p.rules != nil {
		o.Rules = notifyingRules{p.rules, p.decider}
	}
	if p.approvals, err = approvals.New(p.store.Approvals(), o); err != nil {
		return err
	}
	p.approvals.SetPublicURL(s.cfg.PublicURL)
	p.approvals.SetAnswerRules(answerRulesOf(s.cfg))
	p.approvalsAPI = approval.New(approval.Config{
		Approvals: p.approvals, Tenants: p.auth.roster, Across: p.store.Approvals(), Status: gateway.GRPCStatus,
		HTTPStatus: gateway.HTTPStatus, Log: p.log, Audit: p.audit,
		KeyName: p.auth.all.KeyName, Key: p.auth.all.Key, Follow: p.persons.sessions.Follow, StillValid: p.auth.all.StillValid,
	})
	metrics.WatchApprovals(func() telemetry.Approvals {
		s := p.approvals.Stats()
		return telemetry.Approvals{
			Events: map[string]int64{
				"asked": s.Asked, "granted": s.Granted, "approved": s.Approved, "denied": s.Denied, "used": s.Used,
				"released": s.Released, "expired": s.Expired,
			},
			Refused: s.Refused, Waiting: s.Waiting, TTL: cfg.TTL, Pending: p.pendingByLabel(metrics),
		}
	})
	return p.newWebhooks(s, metrics)
}

// notifyingRules are rules that invalidate this replica's decisions at once.
type notifyingRules struct {
	approvals.Rules
	decider *policy.Decider
}

func (r notifyingRules) Set(ctx context.Context, rule policy.Rule) error {
	err := r.Rules.Set(ctx, rule)
	// also after an error, because the rule may have been set
	r.decider.Invalidate(policy.Change{Tenant: rule.Tenant, Name: rule.Name})
	return err
}

// readKeys reads a file of keys that encrypt or sign, one a line. Errors quote no key.
func readKeys(file string, files fingerprints) (keys [][]byte, err error) {
	data, err := files.read(file)
	if err != nil {
		return nil, err
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		key := decodeKey(line)
		if len(key) != approvals.KeyBytes {
			return nil, wrongFile(file, "%s:%d: not a key; want %d bytes in base64 or hex, as openssl rand "+
				"-base64 %[3]d prints them", file, n, approvals.KeyBytes)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, wrongFile(file, "%s contains no key", file)
	}
	return keys, nil
}

// decodeKey decodes base64 or hex; nil for other texts.
func decodeKey(text string) []byte {
	if key, err := hex.DecodeString(text); err == nil && len(key) == approvals.KeyBytes {
		return key
	}
	text = strings.TrimRight(text, "=")
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if key, err := enc.DecodeString(text); err == nil {
			return key
		}
	}
	return nil
}

func sameKeys(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }
