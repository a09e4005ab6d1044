package relay

import "fmt"

// Frames that are not part of a call: SETTINGS, PING, GOAWAY, WINDOW_UPDATE, RST_STREAM, PRIORITY.

func (c *conn) onSettings(fh frameHeader, p []byte) *connError {
	if fh.stream != 0 {
		return &connError{errProtocol, "SETTINGS on a stream"}
	}
	c.guard.addControl(1 + len(p)/6) // an entry can change the windows of all streams
	if fh.flags&flagAck != 0 {
		if len(p) != 0 {
			return &connError{errFrameSize, "SETTINGS acknowledgement with a payload"}
		}
		if !c.settled {
			return &connError{errProtocol, "first frame is not SETTINGS"}
		}
		return nil
	}
	if len(p)%6 != 0 {
		return &connError{errFrameSize, "SETTINGS length"}
	}
	window := c.peerWindow
	for ; len(p) > 0; p = p[6:] {
		if err := c.onSetting(uint16(p[0])<<8|uint16(p[1]), be32(p[2:])); err != nil {
			return err
		}
	}
	c.write(appendFrameHeader(c.space(frameHeaderLen), 0, frameSettings, flagAck, 0))
	if c.peerWindow > window { // only now, because the peer uses the new values after the acknowledgement
		c.streams.each(func(h *half) { h.stream.pump(h) })
	}
	if !c.settled {
		c.settled = true
		if c.pool != nil {
			c.pool.ready(c)
		}
	} else if c.pool != nil {
		c.pool.dispatch()
	}
	return nil
}

func (c *conn) onSetting(id uint16, v uint32) *connError {
	switch id {
	case settingHeaderTableSize:
		c.enc.SetMaxTable(v)
	case settingEnablePush:
		if v > 1 || v == 1 && c.pool != nil {
			return &connError{errProtocol, "ENABLE_PUSH"}
		}
	case settingMaxStreams:
		c.peerMaxStreams = v
	case settingInitialWindow:
		return c.onInitialWindow(v)
	case settingMaxFrame:
		if v < maxFrame || v > 1<<24-1 {
			return &connError{errProtocol, "MAX_FRAME_SIZE"}
		}
	}
	return nil
}

// onInitialWindow adjusts the windows of all open streams (RFC 9113 §6.9.2).
func (c *conn) onInitialWindow(v uint32) *connError {
	if v > maxWindow {
		return &connError{errFlowControl, "INITIAL_WINDOW_SIZE"}
	}
	delta := int(v) - c.peerWindow
	c.peerWindow = int(v)
	var overflow bool
	c.streams.each(func(h *half) {
		h.sendWin += delta
		overflow = overflow || h.sendWin > maxWindow
	})
	if overflow {
		return &connError{errFlowControl, "INITIAL_WINDOW_SIZE overflows a stream's window"}
	}
	return nil
}

func (c *conn) onPing(fh frameHeader, p []byte) *connError {
	switch {
	case fh.stream != 0:
		return &connError{errProtocol, "PING on a stream"}
	case len(p) != 8:
		return &connError{errFrameSize, "PING length"}
	case fh.flags&flagAck != 0:
		c.pingSent = 0
		c.onDrainPing(p)
		return nil
	}
	c.guard.addControl(1)
	c.write(append(appendFrameHeader(c.space(frameHeaderLen+8), 8, framePing, flagAck, 0), p...))
	return nil
}

// maxDebugData is the maximum length of a peer's debug data in an error, in bytes.
const maxDebugData = 128

func (c *conn) onGoAway(fh frameHeader, p []byte) *connError {
	if fh.stream != 0 {
		return &connError{errProtocol, "GOAWAY on a stream"}
	}
	if len(p) < 8 {
		return &connError{errFrameSize, "GOAWAY length"}
	}
	c.draining = true
	if c.pool == nil {
		c.guard.addControl(1)
		c.closeIfDone()
		return nil
	}
	c.pool.retire(c)
	last, code := be32(p)&maxStreamID, errCode(be32(p[4:]))
	insecure := code == errInadequateSecurity // RFC 9113 §9.2: such a connection cannot carry requests
	if insecure {
		last = 0
	}
	why := fmt.Errorf("%w (error %d: %q)", ErrGoAway, code, p[8:min(len(p), 8+maxDebugData)])
	c.streams.each(func(h *half) {
		switch {
		case h.id <= last:
		case insecure:
			h.stream.unsent(why)
		default:
			h.stream.disowned(why)
		}
	})
	c.closeIfDone()
	return nil
}

func (c *conn) onWindowUpdate(fh frameHeader, p []byte) *connError {
	if len(p) != 4 {
		return &connError{errFrameSize, "WINDOW_UPDATE length"}
	}
	c.guard.addControl(1)
	n := int(be32(p) & maxWindow)
	if fh.stream == 0 {
		if n == 0 {
			return &connError{errProtocol, "WINDOW_UPDATE of zero"}
		}
		if c.sendWin += n; c.sendWin > maxWindow {
			return &connError{errFlowControl, "connection window overflows"}
		}
		c.resumeStreams()
		return nil
	}
	if fh.stream > c.lastID {
		return &connError{errProtocol, "WINDOW_UPDATE on an idle stream"}
	}
	h := c.streams.get(fh.stream)
	if h == nil {
		return nil // may have been in flight when the stream ended
	}
	if n == 0 {
		h.stream.broken(h, errProtocol)
		return nil
	}
	if h.sendWin += n; h.sendWin > maxWindow {
		h.stream.broken(h, errFlowControl)
		return nil
	}
	if s := h.stream; h == &s.up && s.requestHead != nil {
		s.accepted = true
	}
	h.stream.pump(h)
	return nil
}

func (c *conn) onReset(fh frameHeader, p []byte) *connError {
	switch {
	case len(p) != 4:
		return &connError{errFrameSize, "RST_STREAM length"}
	case fh.stream == 0 || fh.stream > c.lastID:
		return &connError{errProtocol, "RST_STREAM on an idle stream"}
	}
	h := c.streams.get(fh.stream)
	if h == nil {
		c.guard.addControl(1)
		return nil
	}
	code := errCode(be32(p))
	if c.pool != nil {
		h.stream.refused(code)
		return nil
	}
	if s := h.stream; !s.started && s.phase != answered && c.sh.now-int64(s.began) < premature {
		c.guard.addReset()
	}
	h.stream.canceled(code)
	return nil
}

func (c *conn) onPriority(fh frameHeader, p []byte) *connError {
	if fh.stream == 0 {
		return &connError{errProtocol, "PRIORITY on stream 0"}
	}
	if len(p) != 5 {
		if h := c.streams.get(fh.stream); h != nil {
			h.stream.broken(h, errFrameSize)
			return nil
		}
		return &connError{errFrameSize, "PRIORITY length"}
	}
	if be32(p)&maxStreamID == fh.stream {
		if h := c.streams.get(fh.stream); h != nil {
			h.stream.broken(h, errProtocol)
			return nil
		}
		return &connError{errProtocol, "PRIORITY on itself"}
	}
	c.guard.addControl(1)
	return nil
}
