package relay

// half is one side of a stream: downstream or upstream.
type half struct {
	stream     *Stream
	transport  transport  // nil means not attached
	state      *peerState // of the transport
	id         uint32     // on its connection
	gotEnd     bool       // END_STREAM received
	sentEnd    bool       // END_STREAM sent
	queueEnd   bool       // END_STREAM follows the queue
	sendWin    int        // what we may send to this side
	recvWin    int32      // what this side may still send us
	uncredited int32      // received and forwarded, but not yet replenished
	got        int64
	length     int64  // content-length, or -1
	queue      *queue // to this side; nil means empty
}

// transport connects one side of streams, such as an HTTP/2 connection. Its methods are called with the shard locked.
// It delivers input to the stream through headers, accept and receive, and the stream's end through canceled, refused,
// broken and lost.
type transport interface {
	// attach adds a stream's half, which has its id and windows.
	attach(h *half)
	// detach removes the half. Later frames for its id are strays.
	detach(h *half)
	// room returns the number of bytes of data that the transport accepts now for a half.
	room(h *half) int
	// wait pumps the half as soon as the transport accepts more; unwait cancels that.
	wait(h *half)
	unwait(h *half)
	// writeData sends n bytes at buf[pos:], at most maxFrame. It may refer to them until the shard settles, and
	// overwrite buf[pos-frameHeaderLen:pos].
	writeData(h *half, buf []byte, pos, n int, end bool)
	// copyData sends a copy of p, at most maxFrame bytes.
	copyData(h *half, p []byte, end bool)
	// beginBlock starts headers or trailers.
	beginBlock() blockWriter
	// cutShort resets the half's stream.
	cutShort(h *half, code errCode)
	// replenish adds n bytes to the window of this side.
	replenish(h *half, n int)
	// state returns the counters of its streams, which are valid while they are attached.
	state() *peerState
}

// peerState counts the effects of a transport's peer. It is not part of the interface because it changes with every
// frame.
type peerState struct {
	guard floodGuard // work caused by the peer
	heads int        // bytes of the headers of unanswered requests
	held  int        // bytes in the queues of its streams; only for a server
}

// downstream has the additional methods of a client-side transport.
type downstream interface {
	// remote returns the client, for Stream.Peer.
	remote() *Peer
	// relieve writes before the end of the turn if the turn has produced much output. The stream may have ended then.
	// It returns false if too much is pending for another response's headers.
	relieve() bool
	// overBuffer reports whether its streams hold more than allowed.
	overBuffer() bool
	// ledger returns the ledger of streams that no group pays for. It is the same for the lifetime of a stream.
	ledger() *ledger
	// setGroup charges the transport itself to a group.
	setGroup(g *Group)
	// messageTimedOut is called when a first message was not received in time.
	messageTimedOut()
}

// client is a client-side transport.
type client interface {
	transport
	downstream
}

// join attaches a half to its transport. window is the initial send window.
func (h *half) join(t transport, id uint32, window int) {
	h.transport, h.state, h.id = t, t.state(), id
	h.sendWin, h.recvWin = window, int32(h.stream.sh.relay.cfg.HTTP2.StreamWindow)
	h.length = -1
	t.attach(h)
}

// detach removes a half. Later frames for it are strays.
func (h *half) detach() {
	t := h.transport
	if t == nil {
		return
	}
	if l := h.stream.limit; l != nil {
		l.meter(h).leave()
	}
	h.transport = nil
	t.detach(h)
}
