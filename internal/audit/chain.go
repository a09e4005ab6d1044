package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
)

// Head is the end of a chain.
type Head struct {
	Seq  int64             // of the last record; 0: none
	Hash [sha256.Size]byte // of its line without the newline
}

func (h Head) String() string { return hex.EncodeToString(h.Hash[:]) }

// link appends a record to b as the next one of the chain. rec is the result of line.end.
func (h *Head) link(b, rec []byte) []byte {
	start := len(b)
	h.Seq++
	b = append(b, `{"seq":`...)
	b = strconv.AppendInt(b, h.Seq, 10)
	b = append(b, `,"prev":"`...)
	b = hex.AppendEncode(b, h.Hash[:])
	b = append(b, '"', ',')
	b = append(b, rec[1:]...)
	h.Hash = sha256.Sum256(b[start : len(b)-1])
	return b
}

// record has the fields of a line that Verify needs.
type record struct {
	Seq     int64  `json:"seq"`
	Prev    string `json:"prev"`
	Type    string `json:"type"`
	Time    string `json:"time"`
	Records int64  `json:"records"` // of type lost
}

var errNoRecord = errors.New("not a record of an audit log")

// parse parses a line without its newline, and returns the chain's head after it.
func parse(text []byte) (r record, after Head, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&r); err != nil || d.InputOffset() != int64(len(text)) || r.Seq < 1 ||
		len(r.Prev) != 2*sha256.Size || r.Type == "" {
		return r, after, errNoRecord
	}
	return r, Head{Seq: r.Seq, Hash: sha256.Sum256(text)}, nil
}
