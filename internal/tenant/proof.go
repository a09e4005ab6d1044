package tenant

import "encoding/binary"

// Proof remembers the last API key that a connection has shown, so that its next call with the same one needs no hash.
// The caller must not use it from two goroutines at the same time. The text never leaves the process. It is kept until
// the connection ends, which shows it in each call.
type Proof struct {
	key  *cachedKey // that the text matched; nil: none
	text [credentialWords]uint64
}

// credentialWords is the number of words that hold an API key.
const credentialWords = (credentialLen + 7) / 8

// wordsOf returns an API key as words. The last one is padded.
func wordsOf(credential string) (words [credentialWords]uint64) {
	var text [credentialWords * 8]byte
	copy(text[:], credential)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(text[8*i:])
	}
	return words
}

// proves reports whether the credential, an API key, is the one that matched k. It takes the same time for every
// credential. A key that was replaced, or read from the store again, is another one.
func (p *Proof) proves(k *cachedKey, credential string) bool {
	if p == nil || p.key != k {
		return false
	}
	var differ uint64
	for i, word := range wordsOf(credential) {
		differ |= word ^ p.text[i]
	}
	return differ == 0
}

// keyOf returns the key of k that the credential matched last, if k still has it.
func (p *Proof) keyOf(k *Keys, credential string) *cachedKey {
	if p == nil || p.key == nil || p.key.of != k || p.key.removed.Load() || !p.proves(p.key, credential) {
		return nil
	}
	return p.key
}

// remember records that a credential has matched k.
func (p *Proof) remember(k *cachedKey, credential string) {
	if p != nil {
		p.key, p.text = k, wordsOf(credential)
	}
}
