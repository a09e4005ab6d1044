package audit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// Summary is what Verify found to be whole.
type Summary struct {
	Records     int64
	First, Last int64 // numbers of the first and the last record
	Lost        int64 // records that were not written, as records say
	From, To    string
	Head        Head
}

// Broken says where a chain breaks.
type Broken struct {
	Line int64 // from 1
	Why  string
}

func (b *Broken) Error() string { return fmt.Sprintf("line %d: %s", b.Line, b.Why) }

// Verify follows the chain of a file, from the head of the one before it; nil: whatever the first
// record says was before. The error is a Broken where the chain is, and the Summary is of what
// is whole before it.
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
			return s, &Broken{n, "the last record is cut off: it is being written, or the gateway died; when it " +
				"starts again it takes this piece away, and says so"}
		case errors.Is(err, bufio.ErrBufferFull):
			return s, &Broken{n, "it is too long for a record"}
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

// follows says why a record cannot be the next one; "" if it can.
func (h *Head) follows(r *record) string {
	switch {
	case r.Seq != h.Seq+1:
		return fmt.Sprintf("record %d comes after record %d", r.Seq, h.Seq)
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
