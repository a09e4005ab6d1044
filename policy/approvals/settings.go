package approvals

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"slices"
	"sync"

	"github.com/capgate/capgate/internal/call"
)

// SettingsField is what a store calls Words.Settings in a MismatchError.
const SettingsField = "config_json"

// settingsKeys are the keys under which configurations are known by a hash. They hold secrets,
// some of few bits, which a hash without a key would give away to whoever can read the store.
type settingsKeys struct {
	own [][]byte // made of the keys of the configuration; the first is for what is asked

	mu     sync.Mutex
	shared []byte // what replicas share in the store, where there are none; nil: not known yet
}

// derived are keys for this one purpose.
func derived(keys [][]byte) (all [][]byte) {
	for _, key := range keys {
		h := hmac.New(sha256.New, key)
		h.Write([]byte("capgate approval settings"))
		all = append(all, h.Sum(nil))
	}
	return all
}

// all asks the store once, where it has to.
func (s *settingsKeys) all(ctx context.Context, store Store) ([][]byte, error) {
	if len(s.own) > 0 {
		return s.own, nil
	}
	s.mu.Lock()
	shared := s.shared
	s.mu.Unlock()
	if shared == nil {
		proposal := make([]byte, sha256.Size)
		_, _ = rand.Read(proposal) // which does not fail
		var err error
		if shared, err = store.SettingsKey(ctx, proposal); err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.shared = shared
		s.mu.Unlock()
	}
	return [][]byte{shared}, nil
}

// readSettings replaces what configures a call by what it is known by.
func (k *Service) readSettings(ctx context.Context, r *Request) *call.Refusal {
	config := bytes.TrimSpace(r.Config)
	if r.Settings != nil || len(r.Context) == 0 && (len(config) == 0 || string(config) == "{}") {
		return nil
	}
	read, err := readArguments(config)
	if err != nil {
		return refusedConfig(err)
	}
	keys, err := k.settingsKeys.all(ctx, k.store)
	if err != nil {
		return refusedUnavailable
	}
	said := slices.Clone(r.Context)
	slices.SortFunc(said, func(a, b [2][]byte) int { return bytes.Compare(a[0], b[0]) })
	words := []string{string(read.hash[:])}
	for _, e := range said {
		words = append(words, string(e[0]), string(e[1]))
	}
	sum := sumOf(words...)
	for _, key := range keys {
		h := hmac.New(sha256.New, key)
		h.Write(sum[:])
		r.Settings = append(r.Settings, Sum(h.Sum(nil)))
	}
	return nil
}
