package token

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/tenant"
)

// Tenants says which tenants there are.
type Tenants interface {
	// Lookup answers from memory, and must not block. s is nil where there is no such tenant.
	Lookup(id string) (s *tenant.Settings, known bool)
	// Settings may wait, until ctx ends. It is nil where there is no such tenant.
	Settings(ctx context.Context, id string) (*tenant.Settings, *call.Refusal)
}

// Options are the rest of what a Verifier needs.
type Options struct {
	Cache int              // verified tokens in memory; default 100,000
	Now   func() time.Time // default time.Now
	Log   *slog.Logger     // default none
}

// Verifier finds out who calls by their tokens.
type Verifier struct {
	options   Options
	tenants   Tenants
	cache     *cache
	fetches   *tenant.TokenBucket // for keys that are unknown, of all issuers
	verifying chan struct{}
	table     atomic.Pointer[map[string]*issuer] // by iss; never changed

	mu      sync.Mutex // held to change table
	base    context.Context
	running sync.WaitGroup
}

// Fetches for keys that are unknown, of all issuers together.
const (
	fetchesBurst = 20
	fetchesEvery = time.Second
)

// New makes a Verifier without any issuer. It does nothing beside the calls until Run.
func New(tenants Tenants, o Options) (*Verifier, error) {
	if o.Cache == 0 {
		o.Cache = 100_000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	known, err := newCache(o.Cache)
	if err != nil {
		return nil, err
	}
	v := &Verifier{
		options: o, tenants: tenants, cache: known, fetches: tenant.NewTokenBucket(fetchesBurst, fetchesEvery),
		// Signatures are checked by half of the processors: calls go on while somebody sends false ones.
		verifying: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
	}
	v.table.Store(&map[string]*issuer{})
	return v, nil
}

// Run fetches keys until ctx ends.
func (v *Verifier) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	v.mu.Lock()
	v.base = ctx
	for _, i := range *v.table.Load() {
		v.start(i.source)
	}
	v.mu.Unlock()
	<-ctx.Done()
	v.mu.Lock()
	v.base = nil
	v.mu.Unlock()
	v.running.Wait()
}

// start begins with fetching, if that is not begun. v.mu is held.
func (v *Verifier) start(s *source) {
	if v.base == nil || s.stop != nil {
		return
	}
	ctx, cancel := context.WithCancel(v.base)
	s.stop = cancel
	v.running.Go(recovery.Loop(ctx, "issuer keys", func() { s.run(ctx) }))
}

// Replace puts other issuers in force. Tokens of an issuer that is not among them, or is
// otherwise configured, are unknown from now on.
func (v *Verifier) Replace(issuers []Issuer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := map[string]*issuer{}
	for _, i := range *v.table.Load() {
		before[i.Name] = i
	}
	next := make(map[string]*issuer, len(issuers))
	for n := range issuers {
		i, old := &issuer{Issuer: issuers[n]}, before[issuers[n].Name]
		switch {
		case old != nil && old.equal(i.Issuer):
			i = old
		case old != nil && old.sameSource(i.Issuer):
			i.source = old.source
		default:
			i.source = newSource(&i.Issuer, &v.options, v.fetches)
		}
		next[i.URL] = i
		v.start(i.source)
	}
	v.table.Store(&next)
	v.retire(before, slices.Collect(maps.Values(next)))
}

// retire ends what is not among those in force.
func (v *Verifier) retire(before map[string]*issuer, now []*issuer) {
	for _, old := range before {
		if !slices.Contains(now, old) {
			old.gone.Store(true)
		}
		if stop := old.source.stop; stop != nil &&
			!slices.ContainsFunc(now, func(i *issuer) bool { return i.source == old.source }) {
			stop()
		}
	}
}

// Lookup finds out who calls by a token that was verified before. Tenant and Key of the
// answer are its own, and so are User and Agent where the claim does not say them.
func (v *Verifier) Lookup(c tenant.Credentials) (who tenant.Identity, known bool, refusal *call.Refusal) {
	if len(c.Credential) > maxToken || !LooksLikeToken(c.Credential) {
		return who, true, refusedToken
	}
	print := printOf(c.Credential)
	found := v.cache.get(&print)
	if found == nil {
		return who, false, nil
	}
	settings, known := v.tenants.Lookup(found.who.Tenant)
	if !known {
		return who, false, nil
	}
	who, refusal = v.answer(found, settings, c)
	return who, true, refusal
}

// Authenticate verifies a token, and may wait for its issuer.
func (v *Verifier) Authenticate(ctx context.Context, c tenant.Credentials) (tenant.Identity, *call.Refusal) {
	if len(c.Credential) > maxToken || !LooksLikeToken(c.Credential) {
		return tenant.Identity{}, refusedToken
	}
	print := printOf(c.Credential)
	found := v.cache.get(&print)
	if found == nil {
		var err error
		if found, err = v.verify(ctx, &print, c.Credential); err != nil {
			return tenant.Identity{}, v.refuse(err)
		}
	}
	settings, refusal := v.tenants.Settings(ctx, found.who.Tenant)
	if refusal != nil {
		return tenant.Identity{}, refusal
	}
	return v.answer(found, settings, c)
}

// answer is who calls by a token that was verified.
func (v *Verifier) answer(found *verified, settings *tenant.Settings, c tenant.Credentials) (tenant.Identity,
	*call.Refusal) {
	if settings == nil {
		return tenant.Identity{}, refusedToken
	}
	if !v.options.Now().Before(found.expires) {
		return tenant.Identity{Tenant: found.who.Tenant, Key: found.who.Key}, refusedExpired
	}
	who := found.who
	who.Settings = settings
	return who.Assert(c, found.issuer.Claims.Asserts)
}

var (
	errUnavailable = errors.New("the keys of its issuer are not known")
	errBusy        = errors.New("too many signatures are to be checked")
)

// verify finds out whether a token is good.
func (v *Verifier) verify(ctx context.Context, print *print, raw string) (*verified, error) {
	said, err := parse(raw)
	if err != nil {
		return nil, err
	}
	by := (*v.table.Load())[said.issuer]
	if by == nil {
		return nil, errors.New("its issuer is not configured")
	}
	if !slices.Contains(by.Algorithms, said.alg) {
		return nil, errors.New("alg is not one of its issuer's")
	}
	keys, err := by.keysFor(ctx, &said)
	if err != nil {
		return nil, err
	}
	select {
	case v.verifying <- struct{}{}:
		defer func() { <-v.verifying }()
	case <-ctx.Done():
		return nil, errBusy
	}
	if found := v.cache.get(print); found != nil { // it was shown by many calls at once
		return found, nil
	}
	found, err := by.verify(ctx, raw, keys, said.alg, v.options.Now())
	if err == nil {
		v.cache.put(print, found)
	}
	return found, err
}

// keysFor finds the keys that may have signed a token, and has them fetched if none may.
func (i *issuer) keysFor(ctx context.Context, said *unverified) ([]*key, error) {
	if i.source.keys() == nil {
		i.source.inProgress().wait(ctx)
	}
	set := i.source.keys()
	if set == nil {
		return nil, errUnavailable
	}
	if found := set.candidates(said); len(found) > 0 {
		return found, nil
	}
	i.source.again().wait(ctx)
	if set = i.source.keys(); set == nil {
		return nil, errUnavailable
	}
	if found := set.candidates(said); len(found) > 0 {
		return found, nil
	}
	return nil, errors.New("its key is unknown")
}

// verify checks signature and claims.
func (i *issuer) verify(ctx context.Context, raw string, keys []*key, alg string, now time.Time) (*verified, error) {
	t := &trial{keys: keys, alg: alg}
	// The leeway of times is ours, and so is aud, of which there may be several.
	good, err := oidc.NewVerifier(i.URL, t,
		&oidc.Config{SupportedSigningAlgs: []string{alg}, SkipClientIDCheck: true, SkipExpiryCheck: true}).Verify(ctx, raw)
	if err != nil {
		return nil, errors.New("its signature or its form is wrong")
	}
	var payload json.RawMessage
	if err = good.Claims(&payload); err != nil {
		return nil, err
	}
	claims, err := decodeObject(payload)
	if err != nil {
		return nil, err
	}
	who, expires, err := i.check(claims, now)
	if err != nil {
		return nil, err
	}
	return &verified{who: who, expires: expires, issuer: i, key: t.by}, nil
}

// refuse says no more than a caller may know. The log has why, but nothing of the token.
func (v *Verifier) refuse(err error) *call.Refusal {
	switch {
	case errors.Is(err, errUnavailable):
		return refusedUnavailable
	case errors.Is(err, errBusy):
		return refusedBusy
	case errors.Is(err, errExpired):
		return refusedExpired
	}
	v.options.Log.Debug("a token is not accepted", "reason", err.Error())
	return refusedToken
}

// The refusals of a token.
var (
	refusedToken = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID",
		Message: "the credential is neither an API key nor a token that is accepted here"}
	refusedExpired = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_EXPIRED",
		Message: "the token has expired"}
	refusedUnavailable = &call.Refusal{Kind: call.Unavailable, Reason: "IDENTITY_UNAVAILABLE",
		Message: "the issuer of the token cannot be asked for its keys; try again later", RetryAfter: 5 * time.Second}
	refusedBusy = &call.Refusal{Kind: call.Unavailable, Reason: "IDENTITY_OVERLOADED",
		Message: "too many tokens are to be verified; try again later"}
)
