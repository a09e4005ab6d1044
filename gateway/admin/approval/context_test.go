package approval_test

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/tenant"
)

// caller returns a context of a call by a user.
func caller(ctx context.Context, tenantName, user string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "test-tenant", tenantName, "test-user", user)
}

// called returns the context of a call whose caller is known, as the gateway makes it.
func called(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	if as := md.Get("test-as"); len(as) == 1 {
		return tenant.NewContext(ctx, identities()[as[0]])
	}
	names, users := md.Get("test-tenant"), md.Get("test-user")
	if len(names) != 1 {
		return ctx
	}
	who := tenant.Identity{Tenant: names[0], User: users[0]}
	if key := md.Get("test-key"); len(key) == 1 {
		who.Key, who.Scopes = key[0], tenant.Approve
	}
	return tenant.NewContext(ctx, who)
}

type calledStream struct{ grpc.ServerStream }

func (s calledStream) Context() context.Context { return called(s.ServerStream.Context()) }
