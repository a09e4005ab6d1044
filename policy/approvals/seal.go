package approvals

import (
	"fmt"

	"github.com/capgate/capgate/internal/lib/aead"
)

// sealer encrypts what is kept of arguments, bound to the approval that it is of. The zero
// value does not.
type sealer struct{ aead.Sealer }

// KeyBytes is how long a key is.
const KeyBytes = aead.KeyBytes

func newSealer(keys [][]byte) (*sealer, error) {
	s, err := aead.New(keys)
	if err != nil {
		return nil, fmt.Errorf("approvals: %w", err)
	}
	return &sealer{*s}, nil
}

// What a sealed text is: the arguments as they were sent, or only a preview of them.
const (
	sealedArgs    = 'a'
	sealedPreview = 'p'
)

// seal must not be called without a key.
func (s *sealer) seal(a *Approval, what byte, text []byte) []byte {
	return s.Seal(additionalData(a), append([]byte{what}, text...))
}

func (s *sealer) open(a *Approval, sealed []byte) (what byte, text []byte, err error) {
	text, err = s.Open(additionalData(a), sealed)
	if err == nil && len(text) == 0 {
		err = aead.ErrOpen
	}
	if err != nil {
		return 0, nil, err
	}
	return text[0], text[1:], nil
}

// additionalData is what a sealed text belongs to.
func additionalData(a *Approval) []byte {
	s := sumOf("capgate approval", a.Tenant, a.ID, string(a.ArgsHash[:]))
	return s[:]
}
