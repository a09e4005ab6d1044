package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/registry"
)

// Registrations are the leases of backends that registered themselves. It is a registry.Leases.
type Registrations struct {
	client
	epoch string // for a Redis without a version
}

// Registrations returns the leases.
func (s *Store) Registrations() *Registrations {
	return &Registrations{s.client(Registry), rand.Text()}
}

// registration is the stored form of a registration, without its lease and its TTL. Its field is its capability and
// its address, separated by a space.
type registration struct {
	Pinned        []netip.AddrPort `json:"pinned"`
	Weight        int              `json:"weight"`
	Zone          string           `json:"zone,omitempty"`
	Session       string           `json:"session,omitempty"`
	Tenant        string           `json:"tenant,omitempty"`
	Dialect       string           `json:"dialect,omitempty"`
	MaxConcurrent int              `json:"max_concurrent,omitempty"`
	Manifest      string           `json:"manifest,omitempty"` // SHA-256 of its text, hexadecimal; scripts look for it
}

// Register implements registry.Leases.
func (r *Registrations) Register(ctx context.Context, g *registry.Registration, renew bool, most int) error {
	value, err := encodeRegistration(g)
	if err != nil {
		return err
	}
	register := func(sum, text string) (string, error) {
		return r.run(ctx, registerScript, r.scriptKeys(), r.channel("registry"), r.epoch,
			fieldOf(g.Key()), value, g.TTL.Milliseconds(), g.Lease, renew, most, sum, text,
			registry.MaxManifests).Text()
	}
	sum := sumOf(g)
	answer, err := register(sum, "")
	if err == nil && answer == "manifest" { // it is missing
		answer, err = register(sum, g.Manifest.Text)
	}
	switch {
	case err != nil:
		return err
	case answer == "superseded":
		return registry.ErrSuperseded
	case answer == "full":
		return registry.ErrFull
	case answer == "manifests full":
		return registry.ErrManifests
	case answer != "registered":
		return errors.New("register a backend: the script returned an unexpected answer")
	}
	return nil
}

// Manifest implements registry.Leases.
func (r *Registrations) Manifest(ctx context.Context, sum registry.Sum) (text string, err error) {
	err = r.do(ctx, func(ctx context.Context, c redis.Cmdable) (err error) {
		text, err = c.HGet(ctx, r.scriptKeys()[4], sum.String()).Result()
		return err
	})
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return text, err
}

// Withdraw implements registry.Leases.
func (r *Registrations) Withdraw(ctx context.Context, key registry.Key, lease string) (bool, error) {
	answer, err := r.run(ctx, withdrawScript, r.scriptKeys(), r.channel("registry"), r.epoch, fieldOf(key),
		lease).Text()
	if answer == "superseded" {
		return false, registry.ErrSuperseded
	}
	return answer == "ended", err
}

// Read implements registry.Leases.
func (r *Registrations) Read(ctx context.Context, since string) (registry.Reading, error) {
	reply := r.read(ctx, readScript, r.scriptKeys(), r.channel("registry"), r.epoch, since, silence.Milliseconds())
	got := registry.Reading{Version: reply.text()}
	if !reply.more() {
		got.Version, got.Unchanged = since, true
		return got, reply.end()
	}
	for live := reply.list(); live.more(); {
		g, ok := decodeRegistration(live.text(), live.text())
		if !ok {
			r.malformed(r.scriptKeys()[0])
			got.Malformed++
			continue
		}
		got.Live = append(got.Live, g)
	}
	for _, field := range reply.list().texts() {
		if key, ok := keyOf(field); ok {
			got.Ended = append(got.Ended, key)
		}
	}
	return got, reply.end()
}

// Watch implements registry.Leases.
func (r *Registrations) Watch(ctx context.Context, changed func()) {
	r.subscribe(ctx, r.channel("registry"), func(string) { changed() }, changed)
}

// scriptKeys returns the keys of all scripts, in order.
func (r *Registrations) scriptKeys() []string {
	return r.keys(nil, "{registry}:leases", "{registry}:ends", "{registry}:ended", "{registry}:state",
		"{registry}:manifests")
}

func fieldOf(k registry.Key) string { return k.Capability + " " + k.Addr }

func keyOf(field string) (registry.Key, bool) {
	capability, addr, ok := strings.Cut(field, " ")
	return registry.Key{Capability: capability, Addr: addr}, ok
}

// encodeRegistration returns lease, TTL in milliseconds and the rest as JSON, one a line, so that scripts can parse
// the first two.
func encodeRegistration(g *registry.Registration) (string, error) {
	rest, err := json.Marshal(registration{g.Pinned, g.Weight, g.Zone, g.Session, g.Tenant, g.Dialect.String(),
		g.MaxConcurrent, sumOf(g)})
	if err != nil {
		return "", fmt.Errorf("registration: %w", err)
	}
	return g.Lease + "\n" + strconv.FormatInt(g.TTL.Milliseconds(), 10) + "\n" + string(rest), nil
}

// sumOf returns the sum of a registration's manifest, or "".
func sumOf(g *registry.Registration) string {
	if g.Manifest.Sum == (registry.Sum{}) {
		return ""
	}
	return g.Manifest.Sum.String()
}

func decodeRegistration(field, value string) (g registry.Registration, ok bool) {
	key, ok := keyOf(field)
	lines := strings.SplitN(value, "\n", 3)
	if !ok || len(lines) != 3 {
		return g, false
	}
	ttl, err := strconv.ParseUint(lines[1], 10, 32)
	if err != nil {
		return g, false
	}
	var rest registration
	if json.Unmarshal([]byte(lines[2]), &rest) != nil {
		return g, false
	}
	var brings registry.Manifest
	if rest.Manifest != "" {
		if brings.Sum, ok = registry.ParseSum(rest.Manifest); !ok {
			return g, false
		}
	}
	dialect, ok := call.ParseDialect(rest.Dialect)
	return registry.Registration{
		Capability: key.Capability, Addr: key.Addr, Pinned: rest.Pinned, Weight: rest.Weight, Zone: rest.Zone,
		Session: rest.Session, Tenant: rest.Tenant,
		Dialect: dialect, MaxConcurrent: rest.MaxConcurrent, Manifest: brings,
		TTL: time.Duration(ttl) * time.Millisecond, Lease: lines[0],
	}, ok
}

// silence is the interval without a read by any replica after which renewals are assumed to have been impossible.
// Replicas read every two seconds.
const silence = 15 * time.Second

var (
	registerScript = newScript("registry_register")
	withdrawScript = newScript("registry_withdraw")
	readScript     = newScript("registry_read")
)

var _ registry.Leases = (*Registrations)(nil)
