package cli

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/lib/backoff"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const (
	firstRetry   = 250 * time.Millisecond // after the first failure in a row; doubled with each
	lastRetry    = 5 * time.Second        // and never more, nor than a third of the lease's time
	maxAttempt   = 10 * time.Second       // bounds one attempt
	withdrawTime = 5 * time.Second        // bounds the withdrawal, a gateway's restart included
)

// States of a registration.
const (
	registered = "registered"
	retrying   = "retrying"
	withdrawn  = "withdrawn"
)

// registrar keeps one backend registered.
type registrar struct {
	client   capgatepb.RegistryClient
	req      *capgatepb.RegisterBackendRequest // with the lease, once there is one
	ttl      time.Duration
	tell     func(registrationState)
	addrs    []string // that the last answer had
	failures int      // in a row
	told     string   // the last logged error
}

// run registers and renews until ctx ends, when it returns nil, or until the gateway rejects that permanently.
func (r *registrar) run(ctx context.Context) error {
	for {
		// Its context is not derived from ctx: the pending response has the lease that has to be withdrawn.
		err := r.attempt(context.WithoutCancel(ctx))
		wait := r.ttl / 3
		switch {
		case err == nil:
			r.failures = 0
		case r.hopeless(err):
			return err
		default:
			wait = backoff.After(r.failures, firstRetry, min(max(wait, firstRetry), lastRetry))
			r.failures++
			if text := describeStatus(err); text != r.told {
				r.told = text
				r.tell(registrationState{State: retrying, Error: text})
			}
		}
		if !backoff.Sleep(ctx, wait-backoff.Random(wait/5)) {
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
		r.tell(registrationState{State: registered, Addrs: r.addrs, TTL: r.ttl.String()})
	}
	return nil
}

// hopeless reports whether a retry is useless. After a successful registration, only the loss of the lease is
// final: other errors may come from replicas with an older configuration.
func (r *registrar) hopeless(err error) bool {
	switch status.Code(err) {
	case codes.FailedPrecondition:
		return true
	case codes.InvalidArgument, codes.PermissionDenied, codes.NotFound, codes.Unimplemented, codes.Unauthenticated:
		return r.req.GetLease() == ""
	}
	return false
}

// withdraw ends the registration, if there is one. It retries if the gateway answers but its store is unavailable.
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
		case codes.OK, codes.NotFound, codes.FailedPrecondition: // expired, or replaced
			r.tell(registrationState{State: withdrawn})
			return nil
		case codes.Unavailable:
		default:
			return err
		}
		if !backoff.Sleep(ctx, firstRetry) {
			return err
		}
	}
}
