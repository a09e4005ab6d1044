// Package probe contains the health checks of OpenParallax engines, which do not implement Healthcheck.
package probe

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/health"
	parallaxpb "github.com/capgate/capgate/proto/openparallax/v1"
)

// Values of health.probe in the configuration.
const (
	StatusWord = "status" // ClientService/GetStatus; any response is healthy
	ShieldWord = "shield" // ShieldService/Health; its response determines the result
)

// Of returns the health check for a value.
func Of(word string) health.Question {
	if word == ShieldWord {
		return shield{}
	}
	return status{}
}

type status struct{}

// Probe implements health.Question.
func (status) Probe(ctx context.Context, conn grpc.ClientConnInterface) (health.Result, error) {
	_, err := parallaxpb.NewClientServiceClient(conn).GetStatus(ctx, &parallaxpb.StatusRequest{})
	return health.Result{OK: err == nil}, err
}

type shield struct{}

// Probe implements health.Question.
func (shield) Probe(ctx context.Context, conn grpc.ClientConnInterface) (health.Result, error) {
	reply, err := parallaxpb.NewShieldServiceClient(conn).Health(ctx, &parallaxpb.HealthRequest{})
	if err != nil {
		return health.Result{}, err
	}
	reason := fmt.Sprintf("Shield %s", reply.GetVersion())
	if !reply.GetHealthy() {
		reason = "Shield reports that it is not healthy"
	}
	return health.Result{OK: reply.GetHealthy(), Reason: reason}, nil
}
