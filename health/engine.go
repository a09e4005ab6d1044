package health

import (
	"context"
	"fmt"

	parallaxpb "github.com/capgate/capgate/proto/openparallax/v1"
)

// Question is what backends are asked to find out whether they serve.
type Question uint8

// The questions. Engines have no Healthcheck, and must have what they are asked.
const (
	Healthcheck  Question = iota // of capabilities: Healthcheck, else grpc.health.v1
	EngineStatus                 // of OpenParallax engines: ClientService/GetStatus; whatever it answers
	EngineShield                 // of OpenParallax engines: ShieldService/Health; what it says
)

// askEngine asks an OpenParallax engine.
func (c *client) askEngine(ctx context.Context) (Result, error) {
	if c.question == EngineStatus {
		_, err := parallaxpb.NewClientServiceClient(c.conn).GetStatus(ctx, &parallaxpb.StatusRequest{})
		return Result{OK: err == nil}, err
	}
	reply, err := parallaxpb.NewShieldServiceClient(c.conn).Health(ctx, &parallaxpb.HealthRequest{})
	if err != nil {
		return Result{}, err
	}
	reason := fmt.Sprintf("Shield %s", reply.GetVersion())
	if !reply.GetHealthy() {
		reason = "its Shield says that it is not healthy"
	}
	return Result{OK: reply.GetHealthy(), Reason: clip(reason)}, nil
}
