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
	"github.com/capgate/capgate/internal/lib/cache"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/tokenbucket"
	"github.com/capgate/capgate/internal/tenant"
)

// Tenants is the directory of tenants.
type Tenants interface {
	// Lookup answers from memory, and must not block. s is nil for an unknown tenant.
	Lookup(id string) (s *tenant.Settings, known bool)
	// Settings may wait, until ctx ends. It returns nil for an unknown tenant.
	Settings(ctx context.Context, id string) (*tenant.Settings, *call.Refusal)
}

// Options configure a Verifier.
type Options struct {
	Cache int              // verified tokens in memory; default 100,000
	Now   func() time.Time // default time.Now
	Log   *slog.Logger     // default none
}

// Verifier authenticates callers by tokens.
type Verifier struct {
	options   Options
	tenants   Tenants
	cache     *cache.Cache[*verified] // by hash of the token
	fetches   *tokenbucket.Bucket     // bounds fetches for unknown keys of all issuers
	verifying chan struct{}
	table     atomic.Pointer[map[string]*issuer] // by iss; the map is immutable

	mu      sync.Mutex // held to change table
	base    context.Context
	running sync.WaitGroup
}

// Bounds of fetches for unknown keys of all issuers together.
const (
	fetchesBurst = 20
	fetchesEvery = time.Second
)

// New returns a Verifier without issuers. Run fetches their keys.
func New(tenants Tenants, o Options) *Verifier {
	if o.Cache == 0 {
		o.Cache = 100_000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	v := &Verifier{
		options: o, tenants: tenants, cache: cache.New[*verified](o.Cache),
		fetches: tokenbucket.New(fetchesBurst, fetchesEvery),
		// Half of the processors verify signatures, so that calls proceed while an attacker sends false ones.
		verifying: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
	}
	v.table.Store(&map[string]*issuer{})
	return v
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

// start starts a source, unless it runs. v.mu is held.
func (v *Verifier) start(s *source) {
	if v.base == nil || s.stop != nil {
		return
	}
	ctx, cancel := context.WithCancel(v.base)
	s.stop = cancel
	v.running.Go(recovery.Loop(ctx, "issuer keys", func() { s.run(ctx) }))
}

// Replace replaces the issuers. Cached tokens of removed or reconfigured issuers become invalid.
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

// retire stops issuers and sources that are no longer configured.
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

// Lookup authenticates a caller with a cached token. Tenant and Key of the identity come from the token, and so do
// User and Agent unless the caller may assert them.
func (v *Verifier) Lookup(c tenant.Credentials) (identity tenant.Identity, known bool, refusal *call.Refusal) {
	if len(c.Credential) > maxToken || !LooksLikeToken(c.Credential) {
		return identity, true, refusedToken
	}
	hash := hashOf(c.Credential)
	found := v.cached(&hash)
	if found == nil {
		return identity, false, nil
	}
	settings, known := v.tenants.Lookup(found.identity.Tenant)
	if !known {
		return identity, false, nil
	}
	identity, refusal = v.answer(found, settings, c)
	return identity, true, refusal
}

// Authenticate verifies a token, and may wait for its issuer.
func (v *Verifier) Authenticate(ctx context.Context, c tenant.Credentials) (tenant.Identity, *call.Refusal) {
	if len(c.Credential) > maxToken || !LooksLikeToken(c.Credential) {
		return tenant.Identity{}, refusedToken
	}
	hash := hashOf(c.Credential)
	found := v.cached(&hash)
	if found == nil {
		var err error
		if found, err = v.verify(ctx, &hash, c.Credential); err != nil {
			return tenant.Identity{}, v.refuse(err)
		}
	}
	settings, refusal := v.tenants.Settings(ctx, found.identity.Tenant)
	if refusal != nil {
		return tenant.Identity{}, refusal
	}
	return v.answer(found, settings, c)
}

// answer returns the identity of a verified token.
func (v *Verifier) answer(found *verified, settings *tenant.Settings, c tenant.Credentials) (tenant.Identity,
	*call.Refusal) {
	if settings == nil {
		return tenant.Identity{}, refusedToken
	}
	if !v.options.Now().Before(found.expires) {
		return tenant.Identity{Tenant: found.identity.Tenant, Key: found.identity.Key}, refusedExpired
	}
	identity := found.identity
	identity.Settings = settings
	return identity.Assert(c, found.issuer.Asserts)
}

var (
	errIssuer      = errors.New("its issuer is not configured")
	errAlgorithm   = errors.New("alg is not one of its issuer's")
	errUnavailable = errors.New("the keys of its issuer are not known")
	errBusy        = errors.New("too many signatures wait for verification")
)

// verify verifies a token, and caches the result.
func (v *Verifier) verify(ctx context.Context, hash *tokenHash, raw string) (*verified, error) {
	said, err := parse(raw)
	if err != nil {
		return nil, err
	}
	by := (*v.table.Load())[said.issuer]
	if by == nil {
		return nil, errIssuer
	}
	if !slices.Contains(by.Algorithms, said.alg) {
		return nil, errAlgorithm
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
	if found := v.cached(hash); found != nil { // a concurrent call has verified it
		return found, nil
	}
	found, err := by.verify(ctx, raw, keys, &said, v.options.Now())
	if err == nil {
		found.by, found.identity.Validity = v, found
		e := cache.NewEntry[*verified](string(hash[:]))
		e.Value = found
		v.cache.Put(found.identity.Tenant, e)
		v.reportGroups(by, found.identity.Person)
	}
	return found, err
}

// reportGroups logs the first token of an issuer with groups that are ignored.
func (v *Verifier) reportGroups(by *issuer, p *tenant.Person) {
	if p.Left > 0 && !by.said.Swap(true) {
		v.options.Log.Warn("a token has groups that do not count: too many, or no names", "issuer", by.Name,
			"counted", len(p.Groups), "left_out", p.Left)
	}
}

// keysFor returns the keys that may have signed a token. If there are none it waits for a fetch.
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
	i.source.requestRefresh().wait(ctx)
	if set = i.source.keys(); set == nil {
		return nil, errUnavailable
	}
	if found := set.candidates(said); len(found) > 0 {
		return found, nil
	}
	if ctx.Err() != nil || !i.source.up.Load() {
		return nil, errUnavailable // the issuer may have the key
	}
	return nil, errors.New("its key is unknown")
}

// verify verifies signature and claims.
func (i *issuer) verify(
	ctx context.Context, raw string, keys []*key, said *unverified, now time.Time,
) (*verified, error) {
	claims, by, err := i.signed(ctx, raw, keys, said.alg)
	if err != nil {
		return nil, err
	}
	identity, expires, err := i.check(said, claims, now)
	if err != nil {
		return nil, err
	}
	return &verified{identity: identity, expires: expires, issuer: i, key: by}, nil
}

// signed returns the claims of a token with a valid signature, and the key that signed it.
func (i *issuer) signed(ctx context.Context, raw string, keys []*key, alg string) (object, *key, error) {
	t := &trial{keys: keys, alg: alg}
	// Times and aud are checked by check, with a leeway and several audiences.
	good, err := oidc.NewVerifier(i.URL, t,
		&oidc.Config{SupportedSigningAlgs: []string{alg}, SkipClientIDCheck: true, SkipExpiryCheck: true}).Verify(ctx,
		raw)
	if err != nil {
		return nil, nil, errors.New("its signature or its format is invalid")
	}
	var payload json.RawMessage
	if err = good.Claims(&payload); err != nil {
		return nil, nil, err
	}
	claims, err := decodeObject(payload)
	return claims, t.by, err
}

// refuse returns a refusal without details. The log has the reason, but nothing of the token.
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

// The refusals of tokens.
var (
	refusedToken = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID",
		Message: "the credential is neither an API key nor a token that is accepted here"}
	refusedExpired = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_EXPIRED",
		Message: "the token has expired"}
	refusedUnavailable = &call.Refusal{Kind: call.Unavailable, Reason: "IDENTITY_UNAVAILABLE",
		Message: "the keys of the token's issuer are unavailable; try again later", RetryAfter: 5 * time.Second}
	refusedBusy = &call.Refusal{Kind: call.Unavailable, Reason: "IDENTITY_OVERLOADED",
		Message: "too many tokens wait for verification; try again later"}
)
