package main

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const (
	firstRetry   = 250 * time.Millisecond // after the first failure in a row; doubled with each
	lastRetry    = 5 * time.Second        // and never more, nor than a third of the lease's time
	maxAttempt   = 10 * time.Second       // bounds one attempt
	withdrawTime = 5 * time.Second        // bounds the withdrawal, a gateway's restart included
)

// registrar keeps one backend registered.
type registrar struct {
	client   capgatepb.RegistryClient
	req      *capgatepb.RegisterBackendRequest // with the lease, once there is one
	ttl      time.Duration
	log      *slog.Logger
	addrs    []string // that the last answer had
	failures int      // in a row
	told     string   // what the log was told of them
}

// run registers and renews until ctx ends, when it returns nil, or until that is
// refused for good.
func (r *registrar) run(ctx context.Context) error {
	for {
		// It is no child of ctx: an answer on its way has the lease that is to be withdrawn.
		err := r.attempt(context.WithoutCancel(ctx))
		wait := r.ttl / 3
		switch {
		case err == nil:
			r.failures = 0
		case r.hopeless(err):
			return err
		default:
			wait = min(max(wait, firstRetry), firstRetry<<min(r.failures, 10), lastRetry)
			r.failures++
			if text := describeStatus(err); text != r.told {
				r.told = text
				r.log.Warn("not registered; trying again", "capability", r.req.GetCapability(), "addr",
					r.req.GetAddr(), "error", text)
			}
		}
		timer := time.NewTimer(wait - time.Duration(float64(wait)*0.2*rand.Float64()))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

func (r *registrar) attempt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(max(r.ttl/3, time.Second), maxAttempt))
	defer cancel()
	resp, err := r.client.RegisterBackend(ctx, r.req)
	if err != nil {
		return err
	}
	r.req.Lease = resp.GetLease()
	if r.told != "" || !slices.Equal(r.addrs, resp.GetAddrs()) {
		r.told, r.addrs = "", resp.GetAddrs()
		r.log.Info("registered", "capability", r.req.GetCapability(), "addr", r.req.GetAddr(), "addresses", r.addrs,
			"ttl", r.ttl)
	}
	return nil
}

// hopeless says whether to try again is of no use. Once a gateway has taken the backend only
// the loss of the lease is: replicas get another configuration one by one.
func (r *registrar) hopeless(err error) bool {
	switch status.Code(err) {
	case codes.FailedPrecondition:
		return true
	case codes.InvalidArgument, codes.PermissionDenied, codes.NotFound, codes.Unimplemented, codes.Unauthenticated:
		return r.req.GetLease() == ""
	}
	return false
}

// withdraw ends the registration, if there is one of ours. It tries again where the gateway
// is there, and what it shares with others is not.
func (r *registrar) withdraw() error {
	if r.req.GetLease() == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTime)
	defer cancel()
	for {
		_, err := r.client.WithdrawBackend(ctx, &capgatepb.WithdrawBackendRequest{
			Capability: r.req.GetCapability(), Addr: r.req.GetAddr(), Lease: r.req.GetLease(),
		}, grpc.WaitForReady(true))
		switch status.Code(err) {
		case codes.OK, codes.NotFound, codes.FailedPrecondition: // it is no more, or another's
			r.log.Info("withdrawn", "capability", r.req.GetCapability(), "addr", r.req.GetAddr())
			return nil
		case codes.Unavailable:
		default:
			return err
		}
		select {
		case <-time.After(firstRetry):
		case <-ctx.Done():
			return err
		}
	}
}
