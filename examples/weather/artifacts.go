package weather

import (
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"time"
)

var errNoRoom = errors.New("no room: other uploads are under way; try again later")

// artifact is one file. It is immutable once stored.
type artifact struct {
	id       string
	filename string
	mimeType string
	data     []byte
	expires  time.Time
}

// artifactStore holds files in memory. Anyone who knows a file's id can read it, so ids are unguessable. The bytes of
// an upload are reserved while it is in progress, so that concurrent uploads cannot exceed the limit.
type artifactStore struct {
	now      func() time.Time
	maxFiles int
	maxBytes int
	ttl      time.Duration

	mu       sync.Mutex
	files    []*artifact // oldest first, which is also the order in which they expire
	held     int         // bytes of files
	reserved int         // bytes not yet added
}

func newArtifactStore(cfg Config) *artifactStore {
	return &artifactStore{now: cfg.Now, maxFiles: cfg.MaxArtifacts, maxBytes: cfg.MaxHeldBytes, ttl: cfg.ArtifactTTL}
}

// reserve makes room for n bytes, deleting the oldest files if necessary. Every reserved byte must be released or
// added.
func (s *artifactStore) reserve(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reserved+n > s.maxBytes {
		return errNoRoom
	}
	s.reserved += n
	s.expire()
	for s.held+s.reserved > s.maxBytes {
		s.dropOldest()
	}
	return nil
}

func (s *artifactStore) release(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved -= n
}

// add stores a file whose bytes are reserved. It owns data.
func (s *artifactStore) add(filename, mimeType string, data []byte) *artifact {
	a := &artifact{id: rand.Text(), filename: filename, mimeType: mimeType, data: data}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved -= len(data)
	s.expire()
	for len(s.files) >= s.maxFiles {
		s.dropOldest()
	}
	a.expires = s.now().Add(s.ttl)
	s.files = append(s.files, a)
	s.held += len(data)
	return a
}

// get returns nil if the file does not exist or has expired.
func (s *artifactStore) get(id string) *artifact {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	if i := slices.IndexFunc(s.files, func(a *artifact) bool { return a.id == id }); i >= 0 {
		return s.files[i]
	}
	return nil
}

// expire deletes files that are too old. The caller holds mu.
func (s *artifactStore) expire() {
	for len(s.files) > 0 && !s.now().Before(s.files[0].expires) {
		s.dropOldest()
	}
}

// dropOldest deletes the oldest file. The caller holds mu.
func (s *artifactStore) dropOldest() {
	s.held -= len(s.files[0].data)
	s.files = slices.Delete(s.files, 0, 1)
}
