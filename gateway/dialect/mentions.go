package dialect

import (
	"bytes"
	"encoding/json"

	"github.com/capgate/capgate/internal/call"
)

// idName is the name of an artifact's id in the JSON of results and arguments.
var idName = []byte(`"capability_artifact_id"`)

// idMark is the index of the first underscore of idName.
const idMark = len(`"capability`)

const (
	maxID       = 512 // bytes of an id; longer ones are ignored
	maxMentions = 64  // per call; further ones are ignored
	allMentions = 1e4 // the same if completeness matters
)

// Mentions finds the ids of artifacts in the payload of a response, in pieces of any size. It only stores the id being
// read.
type Mentions struct {
	found   func(id string)
	plain   bool // the whole payload is an id
	unpacks bool
	state   mention
	begun   uint8  // bytes of idName at the end of the scanned payload
	id      []byte // the literal so far, with its first quote
	count   int
	most    int    // maximum of count
	packed  []byte // the compressed message so far; at most one byte above the limit
}

// mention is the state of the parser of a name and its value.
type mention uint8

const (
	searching mention = iota
	colon             // after the name
	quote             // after the colon
	inside            // in the value
	escaped           // after a backslash
)

// Watches reports whether responses to m can mention artifacts.
func Watches(m call.Method) bool {
	return m == call.Invoke || m == call.StreamInvoke || m == call.UploadInputArtifact
}

// NewMentions returns Mentions that call found with each id, as a separate string.
func NewMentions(found func(id string)) *Mentions { return &Mentions{found: found, most: maxMentions} }

// Reset prepares ms for the response to a call of m.
func (ms *Mentions) Reset(m call.Method) {
	*ms = Mentions{found: ms.found, plain: m == call.UploadInputArtifact, id: ms.id[:0], most: maxMentions}
}

// All raises the limit, and also searches short gzip-compressed messages. It must be called after Reset.
func (ms *Mentions) All() { ms.most, ms.unpacks = allMentions, true }

// see processes the next piece of the payload. last is true at the end of a value of the field.
func (ms *Mentions) see(p []byte, last bool) {
	if ms.plain {
		if ms.id = append(ms.id, p[:min(len(p), maxID+1-len(ms.id))]...); last {
			ms.report(string(ms.id))
			ms.id = ms.id[:0]
		}
		return
	}
	for len(p) > 0 && ms.count < ms.most {
		if ms.state == searching {
			p = ms.search(p)
		} else {
			p = ms.value(p)
		}
	}
}

// search searches for the name, and returns the bytes after it.
func (ms *Mentions) search(p []byte) []byte {
	if ms.begun > 0 {
		// The name may have started in an earlier piece.
		rest := idName[ms.begun:]
		n := min(len(p), len(rest))
		if p[0] == rest[0] && bytes.Equal(p[:n], rest[:n]) {
			if ms.begun += uint8(n); n == len(rest) {
				ms.begun, ms.state = 0, colon
			}
			return p[n:]
		}
		ms.begun = 0
	}
	// Most pieces are short, and have fewer underscores than quotes.
	const few = 4
	seen := 0 // bytes of p without the name's underscore
	for range few {
		at := bytes.IndexByte(p[seen:], idName[idMark])
		if at < 0 {
			return ms.begin(p)
		}
		seen += at + 1
		if begin := seen - 1 - idMark; begin >= 0 && p[begin] == idName[0] && bytes.HasPrefix(p[begin:], idName) {
			ms.state = colon
			return p[begin+len(idName):]
		}
	}
	rest := p[max(seen-idMark, 0):] // a whole name that was not found has not started before
	if at := bytes.Index(rest, idName); at >= 0 {
		ms.state = colon
		return rest[at+len(idName):]
	}
	return ms.begin(p)
}

// begin checks whether the name starts at the end of a piece. It returns nil, because nothing follows.
func (ms *Mentions) begin(p []byte) []byte {
	// An incomplete name has one quote, which is its first byte.
	p = p[max(len(p)-len(idName)+1, 0):]
	if at := bytes.LastIndexByte(p, idName[0]); at >= 0 && bytes.HasPrefix(idName, p[at:]) {
		ms.begun = uint8(len(p) - at)
	}
	return nil
}

// value processes the available bytes after the name.
func (ms *Mentions) value(p []byte) []byte {
	for i, c := range p {
		switch {
		case ms.state == inside && c == '"':
			ms.id = append(ms.id, c)
			var id string
			if json.Unmarshal(ms.id, &id) == nil {
				ms.report(id)
			}
			ms.state = searching
			return p[i+1:]
		case ms.state == inside || ms.state == escaped:
			if len(ms.id) > 6*maxID { // maximum length, with every byte escaped
				ms.state = searching
				return p[i:]
			}
			ms.id = append(ms.id, c)
			if ms.state == inside && c == '\\' {
				ms.state = escaped
			} else {
				ms.state = inside
			}
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		case ms.state == colon && c == ':':
			ms.state = quote
		case ms.state == quote && c == '"':
			ms.state, ms.id = inside, append(ms.id[:0], c)
		default: // null, or a string that happened to be the name
			ms.state = searching
			return p[i:]
		}
	}
	return nil
}

func (ms *Mentions) report(id string) {
	if id != "" && len(id) <= maxID {
		ms.count++
		ms.found(id)
	}
}
