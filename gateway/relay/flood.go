package relay

import "time"

// guard counts what a peer makes us do without asking for anything: control
// frames, resets, empty frames. Calls that complete and data that goes out pay for
// what they bring about. A peer that goes on without is told to calm down and cut
// off (RFC 9113 §10.5).
type guard struct {
	debt   int   // control frames and the like, less what useful work paid back
	since  int64 // up to when time has been taken off the debt
	opened int   // streams opened in this window of resetWindow
	resets int   // of those, how many came to nothing because of the client
}

const (
	maxDebt       = 10_000 // control frames without useful work
	backendDebt   = 10     // times as much for a backend: it is trusted further, not without end
	debtPerSecond = 100    // forgiven with time: a connection may live for days
	answerPays    = 16     // a stream that was answered
	dataPays      = 4      // a DATA frame sent: its WINDOW_UPDATEs and a PING that measures the way
	paysFrom      = 512    // bytes of a DATA frame that the peer's window has cut off, or it pays nothing

	resetWindow = 500                // streams over which early resets are judged: half of them are too many
	premature   = int64(time.Second) // a client that gives up on an unanswered stream sooner has had no use of it
)

// control counts n frames that are not part of a call.
func (g *guard) control(n int) { g.debt += n }

func (g *guard) pay(n int) { g.debt = max(0, g.debt-n) }

// sent pays for a DATA frame of n bytes. A peer that grants its window in crumbs
// makes us send crumbs: they pay nothing.
func (g *guard) sent(n int, cut bool) {
	if !cut || n >= paysFrom {
		g.pay(dataPays)
	}
}

func (g *guard) open() {
	if g.opened++; g.opened > resetWindow {
		g.opened, g.resets = 1, 0
	}
}

// reset counts a stream that the client opened and spoilt.
func (g *guard) reset() { g.resets++ }

// verdict ends the connection of a peer that has gone too far.
func (c *conn) verdict() *connError {
	if g := &c.guard; g.debt <= maxDebt && g.resets <= resetWindow/2 {
		return nil
	}
	return c.judge()
}

func (c *conn) judge() *connError {
	g, limit := &c.guard, maxDebt
	switch {
	case c.pool != nil:
		limit *= backendDebt
	case g.resets > resetWindow/2:
		return &connError{errEnhanceYourCalm, "too many resets"}
	}
	if g.debt <= limit {
		return nil
	}
	g.pay(int(min((c.sh.now-g.since)/int64(time.Second)*debtPerSecond, int64(g.debt))))
	g.since = c.sh.now
	if g.debt <= limit {
		return nil
	}
	return &connError{errEnhanceYourCalm, "too many control frames"}
}
