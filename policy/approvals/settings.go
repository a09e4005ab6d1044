package approvals

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"slices"

	"github.com/capgate/capgate/internal/call"
)

// SettingsField is the name of Binding.Settings in a MismatchError.
const SettingsField = "config_json"

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
	keys, err := k.opts.SettingsKeys.Load(ctx)
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
