package relay

// half is one side of a stream: the downstream's or the upstream's.
type half struct {
	stream     *Stream
	transport  transport  // nil means not attached, or no more
	state      *peerState // of the transport
	id         uint32     // on its connection
	gotEnd     bool       // END_STREAM received
	sentEnd    bool       // END_STREAM sent
	queueEnd   bool       // END_STREAM is to follow the queue
	listed     bool       // in conn.waiting
	sendWin    int        // what we may send to this side
	recvWin    int        // what this side may still send us
	uncredited int        // received and passed on, not yet replenished
	got        int64
	length     int64 // content-length, or -1
	queue      queue // bytes to this side
	prev       *half // in conn.waiting
	next       *half
}

// transport carries one side of streams: an HTTP/2 connection. Its methods are called with the shard locked.
// It hands input from that side to the stream by headers, accept and receive, and the stream's end by canceled,
// refused, broken and lost.
type transport interface {
	// attach adds a stream's half, which has its id and its windows.
	attach(h *half)
	// detach forgets the half; frames for its id are strays from now on.
	detach(h *half)
	// room is how many bytes of data the transport takes now for a half.
	room(h *half) int
	// wait has the half pumped as soon as the transport takes more; unwait takes that back.
	wait(h *half)
	unwait(h *half)
	// writeData sends n bytes at buf[pos:], at most maxFrame. It may refer to them until the shard settles, and
	// overwrite buf[pos-frameHeaderLen:pos].
	writeData(h *half, buf []byte, pos, n int, end bool)
	// copyData sends p, at most maxFrame bytes, and keeps no reference to it.
	copyData(h *half, p []byte, end bool)
	// beginBlock begins headers or trailers.
	beginBlock() blockWriter
	// cutShort resets the half's stream.
	cutShort(h *half, code errCode)
	// replenish gives n bytes of window back to this side.
	replenish(h *half, n int)
	// state counts its streams, for as long as they are attached.
	state() *peerState
}

// peerState counts what the peer of a transport causes. It is no part of the interface as it changes with every frame.
type peerState struct {
	guard floodGuard // what the peer makes us do
	heads int        // bytes of the headers of requests that are not answered yet
	held  int        // bytes in the queues of its streams; only when we are the server
}

// downstream is what the transport of a client's side has besides.
type downstream interface {
	// relieve writes before the turn ends, if what the turn brought is already much: the stream may be over then.
	// It returns false when too much waits to take another response's headers.
	relieve() bool
	// overBuffer reports whether its streams buffer more than they may.
	overBuffer() bool
	// ledger is of those streams that are of no group.
	ledger() *ledger
	// setGroup has a group hold what the transport itself takes.
	setGroup(g *Group)
	// messageTimedOut is called when a first message was not received in time.
	messageTimedOut()
}

// client is the transport of a client's side.
type client interface {
	transport
	downstream
}

// join attaches a half to its transport. window is what we may send.
func (h *half) join(t transport, id uint32, window int) {
	h.transport, h.state, h.id = t, t.state(), id
	h.sendWin, h.recvWin = window, h.stream.sh.relay.cfg.HTTP2.StreamWindow
	h.length = -1
	t.attach(h)
}

// detach forgets a half; what still comes for it is a stray from now on.
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
