package engine

import (
	"cmp"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"time"

	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// Limits of the history; the oldest entry is deleted first.
const (
	maxSessions = 1000
	maxMessages = 1000 // per session
	maxTitle    = 60   // bytes
)

// history has the recorded messages.
type history struct {
	now func() time.Time

	mu       sync.Mutex
	disk     *disk // nil if in memory only
	sessions map[string]*conversation
	touched  int64
	memory   []string // the agent's memory
}

type conversation struct {
	id, title        string
	mode             openparallaxv1.SessionMode
	created, updated int64 // seconds since 1970
	touched          int64 // a counter, because times may be equal
	messages         []*openparallaxv1.ChatMessage
}

func newHistory(now func() time.Time) *history {
	return &history{now: now, sessions: map[string]*conversation{}}
}

func (h *history) add(session, id, role, content string, mode openparallaxv1.SessionMode) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if id == "" {
		id = rand.Text()
	}
	m := &openparallaxv1.ChatMessage{Id: id, SessionId: session, Role: role, Content: content,
		Timestamp: h.now().Unix()}
	h.insert(m, mode)
	h.disk.write(m, mode)
}

// insert adds a message to its conversation. The caller holds mu.
func (h *history) insert(m *openparallaxv1.ChatMessage, mode openparallaxv1.SessionMode) {
	c := h.sessions[m.GetSessionId()]
	if c == nil {
		if len(h.sessions) == maxSessions {
			delete(h.sessions, h.sorted()[maxSessions-1].id)
		}
		title := m.GetContent()[:min(len(m.GetContent()), maxTitle)]
		c = &conversation{id: m.GetSessionId(), title: strings.ToValidUTF8(title, ""), mode: mode,
			created: m.GetTimestamp()}
		h.sessions[c.id] = c
	}
	h.touched++
	c.touched, c.updated = h.touched, m.GetTimestamp()
	c.messages = append(c.messages, m)
	c.messages = c.messages[max(0, len(c.messages)-maxMessages):]
}

// sorted returns all conversations, most recent first.
func (h *history) sorted() []*conversation {
	all := make([]*conversation, 0, len(h.sessions))
	for _, c := range h.sessions {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *conversation) int { return cmp.Compare(b.touched, a.touched) })
	return all
}

// list returns limit conversations from offset; 0: no limit.
func (h *history) list(limit, offset int) []*openparallaxv1.SessionInfo {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.sorted()
	all = all[min(max(offset, 0), len(all)):]
	if limit > 0 {
		all = all[:min(limit, len(all))]
	}
	infos := make([]*openparallaxv1.SessionInfo, len(all))
	for i, c := range all {
		infos[i] = &openparallaxv1.SessionInfo{
			Id: c.id, Title: c.title, Mode: c.mode, CreatedAt: c.created, UpdatedAt: c.updated,
			MessageCount: int32(len(c.messages)),
		}
	}
	return infos
}

// of returns the last messages of a session; 0: no limit.
func (h *history) of(session string, limit int) []*openparallaxv1.ChatMessage {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.sessions[session]
	if c == nil {
		return nil
	}
	from := 0
	if limit > 0 {
		from = max(0, len(c.messages)-limit)
	}
	return slices.Clone(c.messages[from:])
}

func (h *history) remember(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.memory = append(h.memory, what)
	h.memory = h.memory[max(0, len(h.memory)-maxMessages):]
}
