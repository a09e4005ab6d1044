// Package shield is a small OpenParallax Shield: it evaluates actions only by their type. Engines call it in the
// process, gateways over gRPC.
package shield

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

const (
	version = "example"
	maxTier = 3 // people are the last tier
)

// Config configures a Shield. The zero value works.
type Config struct {
	// Decisions maps types of actions, in lower case, to decisions; other types are allowed. The map extends the
	// built-in one: commands and mail need approval, and deletions are blocked.
	Decisions map[string]openparallaxv1.VerdictDecision
	Valid     time.Duration    // validity of a verdict; default 1h
	Now       func() time.Time // default time.Now
}

// Shield evaluates actions. It is safe for concurrent use.
type Shield struct {
	openparallaxv1.UnimplementedShieldServiceServer

	decisions map[string]openparallaxv1.VerdictDecision
	valid     time.Duration
	now       func() time.Time

	evaluations, blocks atomic.Int64
}

// New returns a Shield that is ready to serve.
func New(cfg Config) *Shield {
	s := &Shield{valid: cfg.Valid, now: cfg.Now, decisions: map[string]openparallaxv1.VerdictDecision{
		"execute_command": openparallaxv1.VerdictDecision_ESCALATE,
		"send_email":      openparallaxv1.VerdictDecision_ESCALATE,
		"delete_file":     openparallaxv1.VerdictDecision_BLOCK,
	}}
	maps.Copy(s.decisions, cfg.Decisions)
	if s.valid <= 0 {
		s.valid = time.Hour
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// Judge evaluates an action.
func (s *Shield) Judge(action, payload string) *openparallaxv1.Verdict {
	s.evaluations.Add(1)
	decision, reason, tier := openparallaxv1.VerdictDecision_ALLOW, "nothing is known against it", int32(0)
	if d, ok := s.decisions[strings.ToLower(action)]; ok {
		decision = d
	}
	switch decision {
	case openparallaxv1.VerdictDecision_BLOCK:
		s.blocks.Add(1)
		reason = "actions of this type are not done here"
	case openparallaxv1.VerdictDecision_ESCALATE:
		reason, tier = "a person has to decide on actions of this type", maxTier
	}
	now, hash := s.now(), sha256.Sum256([]byte(action+"\x00"+payload))
	return &openparallaxv1.Verdict{
		Decision: decision, Tier: tier, Confidence: 1, Reasoning: reason, ActionHash: hex.EncodeToString(hash[:]),
		EvaluatedAt: now.Unix(), ExpiresAt: now.Add(s.valid).Unix(),
	}
}

// Evaluate evaluates an action in either form.
func (s *Shield) Evaluate(_ context.Context, r *openparallaxv1.EvaluateRequest) (*openparallaxv1.EvaluateResponse,
	error) {
	action, payload := r.GetActionType(), r.GetPayloadJson()
	if action == "" {
		action, payload = r.GetToolName(), r.GetToolArgsJson()
	}
	return &openparallaxv1.EvaluateResponse{Verdict: s.Judge(action, payload)}, nil
}

// Health reports that the Shield is healthy.
func (s *Shield) Health(context.Context, *openparallaxv1.HealthRequest) (*openparallaxv1.HealthResponse, error) {
	return &openparallaxv1.HealthResponse{Healthy: true, Version: version, MaxTier: maxTier}, nil
}

// GetShieldStatus returns counts since the start.
func (s *Shield) GetShieldStatus(context.Context,
	*openparallaxv1.ShieldStatusRequest) (*openparallaxv1.ShieldStatusResponse, error) {
	return &openparallaxv1.ShieldStatusResponse{
		HeuristicRules: int32(len(s.decisions)), EvaluationsToday: s.evaluations.Load(), BlocksToday: s.blocks.Load(),
	}, nil
}
