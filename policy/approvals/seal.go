package approvals

import (
	"fmt"

	"github.com/capgate/capgate/internal/lib/aead"
)

// sealer encrypts stored arguments, bound to their approval. The zero value does not encrypt.
type sealer struct{ aead.Sealer }

func newSealer(keys [][]byte) (*sealer, error) {
	s, err := aead.New(keys)
	if err != nil {
		return nil, fmt.Errorf("approvals: %w", err)
	}
	return &sealer{*s}, nil
}

// The kinds of sealed text: the arguments as sent, or only their preview.
const (
	sealedArgs    = 'a'
	sealedPreview = 'p'
)

// seal encrypts a text. There must be a key.
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

// additionalData returns the data that a sealed text is bound to.
func additionalData(a *Approval) []byte {
	s := sumOf("capgate approval", a.Tenant, a.ID, string(a.ArgsHash[:]))
	return s[:]
}
