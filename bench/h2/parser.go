package h2

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// frames receives the parsed frames. data may receive one DATA frame in parts: size is the length of the whole payload
// with the first part and 0 with the others, and end is set with the last.
type frames interface {
	data(stream uint32, part []byte, size int, end bool) error
	headers(stream uint32, block []byte, end bool) error
	control(kind, flags byte, stream uint32, payload []byte) error
}

var (
	errPadded     = errors.New("h2: padded DATA is not supported")
	errShortFrame = errors.New("h2: frame too short")
)

// parser splits a stream of bytes into frames. DATA is passed on in place; other frames are assembled first if a read
// cuts them.
type parser struct {
	rest  []byte // start of an incomplete frame
	block []byte // start of an incomplete header block

	blockStream uint32
	blockEnd    bool

	body       int // payload bytes of the current DATA frame that are still to be received
	bodyStream uint32
	bodyEnd    bool
}

// feed passes the frames in b to to. The caller may reuse b afterwards.
func (p *parser) feed(b []byte, to frames) error {
	for len(b) > 0 {
		if p.body > 0 {
			n := min(p.body, len(b))
			p.body -= n
			if err := to.data(p.bodyStream, b[:n], 0, p.bodyEnd && p.body == 0); err != nil {
				return err
			}
			b = b[n:]
			continue
		}
		if len(p.rest) > 0 {
			took, whole := p.complete(b)
			b = b[took:]
			if !whole {
				return nil
			}
			frame := p.rest
			p.rest = p.rest[:0]
			if _, err := p.frame(frame, to); err != nil {
				return err
			}
			continue
		}
		n, err := p.frame(b, to)
		if err != nil {
			return err
		}
		if n == 0 {
			p.rest = append(p.rest, b...)
			return nil
		}
		b = b[n:]
	}
	return nil
}

// complete moves bytes from b to rest until rest holds a whole frame, or the header of a DATA frame. It returns the
// number of bytes and whether that was enough.
func (p *parser) complete(b []byte) (int, bool) {
	took := 0
	if missing := frameHeaderLen - len(p.rest); missing > 0 {
		took = min(missing, len(b))
		p.rest = append(p.rest, b[:took]...)
		if took < missing {
			return took, false
		}
	}
	if p.rest[3] == frameData {
		return took, true
	}
	missing := frameHeaderLen + frameSize(p.rest) - len(p.rest)
	n := min(missing, len(b)-took)
	p.rest = append(p.rest, b[took:took+n]...)
	return took + n, n == missing
}

func frameSize(b []byte) int { return int(b[0])<<16 | int(b[1])<<8 | int(b[2]) }

// frame handles the frame at the start of b and returns its length, or 0 if more bytes are needed.
func (p *parser) frame(b []byte, to frames) (int, error) {
	if len(b) < frameHeaderLen {
		return 0, nil
	}
	size, kind, flags := frameSize(b), b[3], b[4]
	stream := binary.BigEndian.Uint32(b[5:]) & 0x7fffffff
	have := b[frameHeaderLen:]
	if kind == frameData {
		if flags&flagPadded != 0 {
			return 0, errPadded
		}
		n := min(size, len(have))
		p.body, p.bodyStream, p.bodyEnd = size-n, stream, flags&flagEndStream != 0
		return frameHeaderLen + n, to.data(stream, have[:n], size, p.bodyEnd && p.body == 0)
	}
	if len(have) < size {
		return 0, nil
	}
	payload, n := have[:size], frameHeaderLen+size
	switch kind {
	case frameHeaders:
		block, err := headerBlock(payload, flags)
		if err != nil {
			return 0, err
		}
		if flags&flagEndHeaders != 0 {
			return n, to.headers(stream, block, flags&flagEndStream != 0)
		}
		p.block = append(p.block[:0], block...)
		p.blockStream, p.blockEnd = stream, flags&flagEndStream != 0
		return n, nil
	case frameContinuation:
		if stream != p.blockStream {
			return 0, fmt.Errorf("h2: CONTINUATION on stream %d", stream)
		}
		p.block = append(p.block, payload...)
		if flags&flagEndHeaders != 0 {
			return n, to.headers(stream, p.block, p.blockEnd)
		}
		return n, nil
	}
	return n, to.control(kind, flags, stream, payload)
}

// headerBlock strips padding and priority from a HEADERS payload.
func headerBlock(payload []byte, flags byte) ([]byte, error) {
	pad := 0
	if flags&flagPadded != 0 {
		if len(payload) == 0 {
			return nil, errShortFrame
		}
		pad, payload = int(payload[0]), payload[1:]
	}
	if flags&flagPriority != 0 {
		if len(payload) < 5 {
			return nil, errShortFrame
		}
		payload = payload[5:]
	}
	if pad > len(payload) {
		return nil, errShortFrame
	}
	return payload[:len(payload)-pad], nil
}
