package audit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// Summary describes the verified part of a log.
type Summary struct {
	Records     int64
	First, Last int64 // numbers of the first and the last record
	Lost        int64 // records that were not written, according to the log
	From, To    string
	Head        Head
}

// Broken is the place where a chain breaks.
type Broken struct {
	Line int64 // from 1
	Why  string
}

func (b *Broken) Error() string { return fmt.Sprintf("line %d: %s", b.Line, b.Why) }

// Verify checks the chain of a file that follows before; nil: any. The error is a Broken if the chain is broken; then
// the Summary describes the part before it.
func Verify(in io.Reader, before *Head) (s Summary, err error) {
	lines := bufio.NewReaderSize(in, maxRecord)
	if before != nil {
		s.Head = *before
	}
	for n := int64(1); ; n++ {
		text, err := lines.ReadSlice('\n')
		switch {
		case err == io.EOF && len(text) == 0:
			return s, nil
		case err == io.EOF:
			return s, &Broken{n, "the last record is incomplete: it is being written, or the gateway died; a " +
				"restarted gateway removes it, and records that"}
		case errors.Is(err, bufio.ErrBufferFull):
			return s, &Broken{n, "the line is too long for a record"}
		case err != nil:
			return s, err
		}
		r, after, err := parse(text[:len(text)-1])
		if err != nil {
			return s, &Broken{n, err.Error()}
		}
		if n > 1 || before != nil {
			if why := s.Head.follows(&r); why != "" {
				return s, &Broken{n, why}
			}
		}
		s.add(&r, after)
	}
}

// follows returns the reason why a record cannot be the next one, or "".
func (h *Head) follows(r *record) string {
	switch {
	case r.Seq != h.Seq+1:
		return fmt.Sprintf("record %d follows record %d", r.Seq, h.Seq)
	case r.Prev != h.String():
		return fmt.Sprintf("record %d was written after another record than the one before it: that one was "+
			"changed, or this one", r.Seq)
	}
	return ""
}

func (s *Summary) add(r *record, after Head) {
	if s.Records == 0 {
		s.First, s.From = r.Seq, r.Time
	}
	if r.Type == "lost" {
		s.Lost += r.Records
	}
	s.Records++
	s.Last, s.To, s.Head = r.Seq, r.Time, after
}
