package rest

import (
	"container/list"
	"sync"
)

// maxKept is the maximum size of cached documents in bytes.
const maxKept = 32 << 20

// kept is a cache of documents by ETag, which identifies their whole content. Callers with the same tools share an
// entry. The zero value is valid.
type kept struct {
	mu    sync.Mutex
	texts map[string]*list.Element
	order list.List // of *keptText, most recently used first
	size  int
}

type keptText struct {
	tag  string
	text []byte
}

// get returns a text, which must not be changed.
func (k *kept) get(tag string) ([]byte, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, ok := k.texts[tag]
	if !ok {
		return nil, false
	}
	k.order.MoveToFront(e)
	return e.Value.(*keptText).text, true
}

func (k *kept) put(tag string, text []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, there := k.texts[tag]; there || len(text) > maxKept {
		return
	}
	if k.texts == nil {
		k.texts = map[string]*list.Element{}
	}
	k.texts[tag] = k.order.PushFront(&keptText{tag, text})
	for k.size += len(text); k.size > maxKept; {
		last := k.order.Remove(k.order.Back()).(*keptText)
		delete(k.texts, last.tag)
		k.size -= len(last.text)
	}
}
