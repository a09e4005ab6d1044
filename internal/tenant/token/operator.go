package token

import (
	"context"
	"slices"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// Operator verifies an access token of an operator, as Authenticate does, and may wait for its issuer. The identity may
// lack a tenant, which need not exist, and has no settings.
func (v *Verifier) Operator(ctx context.Context, raw string) (tenant.Identity, *call.Refusal) {
	if len(raw) > maxToken || !LooksLikeToken(raw) {
		return tenant.Identity{}, refusedToken
	}
	identity, err := v.operator(ctx, raw)
	if err != nil {
		return tenant.Identity{}, v.refuse(err)
	}
	return identity, nil
}

func (v *Verifier) operator(ctx context.Context, raw string) (identity tenant.Identity, err error) {
	said, err := parse(raw)
	if err != nil {
		return identity, err
	}
	by := (*v.table.Load())[said.issuer]
	switch {
	case by == nil:
		return identity, errIssuer
	case !slices.Contains(by.Algorithms, said.alg):
		return identity, errAlgorithm
	}
	keys, err := by.keysFor(ctx, &said)
	if err != nil {
		return identity, err
	}
	select {
	case v.verifying <- struct{}{}:
		defer func() { <-v.verifying }()
	case <-ctx.Done():
		return identity, errBusy
	}
	claims, _, err := by.signed(ctx, raw, keys, said.alg)
	if err != nil {
		return identity, err
	}
	if _, err = by.checkToken(&said, claims, v.options.Now()); err == nil {
		err = by.checkEmail(claims)
	}
	if err != nil {
		return identity, err
	}
	return by.loginIdentity(claims)
}
