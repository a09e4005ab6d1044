package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/tenant"
)

// canaries are secrets that are planted in every input of a gateway, and searched for in all its output. A door
// is one line that plants a secret, and a sink is one line that searches for them, both in secrets_test.go.
type canaries struct {
	t       *testing.T
	mu      sync.Mutex
	planted map[string]string // by door
	heard   map[string][]string
	spared  map[string][]string // doors whose secrets may appear, by sink
}

func newCanaries(t *testing.T) *canaries {
	return &canaries{t: t, planted: map[string]string{}, heard: map[string][]string{}, spared: map[string][]string{}}
}

// plant creates a secret for a door. It has the form of an API key's secret.
func (c *canaries) plant(door string) string {
	_, secret := tenant.NewCredential()
	return c.plantAs(door, secret)
}

// plantAs plants an existing secret.
func (c *canaries) plantAs(door, secret string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.planted[door] != "" {
		c.t.Fatalf("there are two doors %s", door)
	}
	c.planted[door] = secret
	return secret
}

// scan searches the output of a sink.
func (c *canaries) scan(sink, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard[sink] = append(c.heard[sink], text)
	if unpacked, err := gzip.NewReader(strings.NewReader(text)); err == nil {
		plain, _ := io.ReadAll(unpacked)
		c.heard[sink] = append(c.heard[sink], string(plain))
	}
}

// spare declares that secrets of these doors are meant for a sink, and must be found there.
func (c *canaries) spare(sink string, doors ...string) {
	c.spared[sink] = append(c.spared[sink], doors...)
}

// search fails the test for each secret that was found.
func (c *canaries) search() {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for sink, texts := range c.heard {
		size := 0
		for _, text := range texts {
			size += len(text)
		}
		if size == 0 {
			c.t.Errorf("there is no output of %s to search", sink)
		}
		for door, secret := range c.planted {
			if slices.Contains(c.spared[sink], door) {
				if !strings.Contains(strings.Join(texts, ""), secret) {
					c.t.Errorf("%s does not have the secret of %s, which is meant for it: was it planted?", sink, door)
				}
				continue
			}
			for form, coded := range formsOf(secret) {
				if at := slices.IndexFunc(texts, func(text string) bool {
					return strings.Contains(text, coded)
				}); at >= 0 {
					where := strings.Index(texts[at], coded)
					c.t.Errorf("%s contains the secret of %s, %s: …%q…", sink, door, form,
						texts[at][max(0, where-100):min(len(texts[at]), where+len(coded)+20)])
				}
			}
		}
	}
	c.t.Logf("%d secrets, %d sinks", len(c.planted), len(c.heard))
}

// formsOf returns the ways in which a secret may be encoded. In base64, where it may start anywhere in three
// bytes, it is the part that does not depend on its neighbors.
func formsOf(secret string) map[string]string {
	forms := map[string]string{"as it is": secret, "in hex": hex.EncodeToString([]byte(secret)),
		"escaped": url.QueryEscape(secret)}
	for shift, name := range []string{"in base64", "in base64 behind one byte", "in base64 behind two bytes"} {
		coded := base64.RawStdEncoding.EncodeToString(append(bytes.Repeat([]byte{0}, shift), secret...))
		forms[name] = coded[(8*shift+5)/6 : len(coded)-2]
	}
	return forms
}
