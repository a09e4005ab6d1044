package engine

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// disk stores the recorded messages, one JSON object per line. A killed engine loses at most the line that it was
// writing. The file is never compacted: this is an example.
type disk struct{ file *os.File }

// record is a message on disk.
type record struct {
	Mode      openparallaxv1.SessionMode
	Session   string
	ID        string
	Role      string
	Content   string
	Timestamp int64
}

// load reads the messages in a directory and opens it for further ones.
func (h *history) load(dir string) error {
	file, err := os.OpenFile(filepath.Join(dir, "messages.jsonl"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the sessions: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	lines, size := bufio.NewReader(file), int64(0)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // an incomplete line
			h.disk = &disk{file}
			return file.Truncate(size)
		}
		size += int64(len(line))
		var r record
		if err == nil {
			err = json.Unmarshal(line, &r)
		}
		if err != nil {
			_ = file.Close()
			return fmt.Errorf("read the sessions: %w", err)
		}
		h.insert(&openparallaxv1.ChatMessage{Id: r.ID, SessionId: r.Session, Role: r.Role, Content: r.Content,
			Timestamp: r.Timestamp}, r.Mode)
	}
}

// close closes the file. Later messages are not recorded.
func (d *disk) close() {
	if d != nil {
		_ = d.file.Close()
	}
}

// write records a message. If that fails, the message exists only in memory.
func (d *disk) write(m *openparallaxv1.ChatMessage, mode openparallaxv1.SessionMode) {
	if d == nil {
		return
	}
	line, err := json.Marshal(record{mode, m.GetSessionId(), m.GetId(), m.GetRole(), m.GetContent(), m.GetTimestamp()})
	if err == nil {
		_, _ = d.file.Write(append(line, '\n'))
	}
}
