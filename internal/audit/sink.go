package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// sink writes lines. It is used by one goroutine.
type sink interface {
	// write writes a prefix of whole lines, and returns its length in bytes.
	write(lines []byte) (int, error)
	sync() error
	close() error
	// rotated reports whether its name refers to another file now.
	rotated() bool
}

// stream is a sink that cannot be truncated. After a partial write of a line it first writes the rest.
type stream struct {
	out  io.Writer
	rest []byte
}

func (s *stream) write(lines []byte) (int, error) {
	if len(s.rest) > 0 {
		n, err := s.out.Write(s.rest)
		if s.rest = s.rest[n:]; err != nil {
			return 0, err
		}
	}
	n, err := s.out.Write(lines)
	if n == 0 || n == len(lines) || lines[n-1] == '\n' {
		return n, err
	}
	end := n + bytes.IndexByte(lines[n:], '\n') + 1
	s.rest = bytes.Clone(lines[n:end])
	return end, err
}

func (*stream) sync() error   { return nil }
func (*stream) close() error  { return nil }
func (*stream) rotated() bool { return false }

// file is a sink that only this process writes.
type file struct {
	f    *os.File
	info os.FileInfo
	size int64 // of its whole lines
	torn bool  // it ends with part of a line
}

// openFile opens or creates a file, and finds its head. It truncates an incomplete last line, and returns its length
// as cut.
func openFile(path string) (s sink, head Head, cut int64, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, head, 0, err
	}
	defer func() {
		if err != nil {
			_ = release(f)
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, head, 0, err
	}
	if !info.Mode().IsRegular() {
		return &stream{out: f}, head, 0, nil
	}
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, head, 0, fmt.Errorf("%s is another process' audit log", path)
	}
	var whole int64
	if head, whole, err = headOf(f, info.Size()); err != nil {
		return nil, head, 0, fmt.Errorf("%s: %w", path, err)
	}
	if cut = info.Size() - whole; cut > 0 {
		if err = f.Truncate(whole); err != nil {
			return nil, head, 0, err
		}
	}
	return &file{f: f, info: info, size: whole}, head, cut, nil
}

// headOf parses the last whole line of a file, and returns the end of that line.
func headOf(f io.ReaderAt, size int64) (head Head, whole int64, err error) {
	tail := make([]byte, min(size, 2*maxRecord))
	if _, err = f.ReadAt(tail, size-int64(len(tail))); err != nil && err != io.EOF {
		return head, 0, err
	}
	end := bytes.LastIndexByte(tail, '\n')
	if end < 0 {
		if len(tail) < maxRecord {
			return head, 0, nil // it has no whole line
		}
		return head, 0, errNotOurs
	}
	start := bytes.LastIndexByte(tail[:end], '\n') + 1
	if _, head, err = parse(tail[start:end]); err != nil {
		return head, 0, errNotOurs
	}
	return head, size - int64(len(tail)) + int64(end) + 1, nil
}

var errNotOurs = errors.New("its last line is not a record of an audit log; move the file, or name another one")

func (s *file) write(lines []byte) (int, error) {
	if err := s.repair(); err != nil {
		return 0, err
	}
	n, err := s.f.Write(lines)
	whole := bytes.LastIndexByte(lines[:n], '\n') + 1
	s.size += int64(whole)
	if s.torn = n > whole; s.torn {
		_ = s.repair() // otherwise the next write does
	}
	return whole, err
}

// repair truncates part of a line.
func (s *file) repair() error {
	if !s.torn {
		return nil
	}
	err := s.f.Truncate(s.size)
	s.torn = err != nil
	return err
}

func (s *file) sync() error { return s.f.Sync() }

func (s *file) close() error {
	_ = s.repair() // Verify reports a part that stays
	return release(s.f)
}

// release unlocks and closes a file. A child process that has not reached its exec has the file open, too, and would
// keep the lock.
func release(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}

func (s *file) rotated() bool {
	now, err := os.Stat(s.f.Name())
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return !os.SameFile(now, s.info)
}

// failedSink is a sink that could not be opened.
type failedSink struct{ err error }

func (b failedSink) write([]byte) (int, error) { return 0, b.err }
func (failedSink) sync() error                 { return nil }
func (failedSink) close() error                { return nil }
func (failedSink) rotated() bool               { return false }
