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

// SettingsField is the name of Binding.Settings in a MismatchError.
const SettingsField = "config_json"

// settingsKeys are the keys of the hashes of configurations. These contain secrets, some of few bits, which a
// hash without a key would reveal to readers of the store.
type settingsKeys struct {
	own [][]byte // derived from the configured keys; the first one is for new approvals

	mu     sync.Mutex
	shared []byte // from the store, without configured keys; nil: not loaded yet
}

// derived derives keys for this purpose.
func derived(keys [][]byte) (all [][]byte) {
	for _, key := range keys {
		h := hmac.New(sha256.New, key)
		h.Write([]byte("capgate approval settings"))
		all = append(all, h.Sum(nil))
	}
	return all
}

// all returns the keys. It loads the shared key once, if needed.
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

// readSettings computes the keyed hashes of a call's configuration.
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
	slices.SortStableFunc(said, func(a, b [2][]byte) int { return bytes.Compare(a[0], b[0]) })
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
