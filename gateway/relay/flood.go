package relay

import "time"

// floodGuard counts the work that a peer causes without a purpose of its own: control frames, resets, empty frames.
// Calls that complete and data that is sent are subtracted. A connection that exceeds a limit ends with
// ENHANCE_YOUR_CALM (RFC 9113 §10.5).
type floodGuard struct {
	control int   // control frames and the like, less those that useful work accounts for
	since   int64 // up to when controlPerSecond has been subtracted
	opened  int   // streams opened in this window of resetWindow
	resets  int   // of those, how many came to nothing because of the client
}

const (
	maxControl       = 10_000 // control frames without useful work
	backendFactor    = 10     // times as much for a backend: it is trusted further, not without end
	controlPerSecond = 100    // subtracted with time: a connection may live for days
	perAnswer        = 16     // subtracted for a stream that was answered
	perData          = 4      // subtracted for a DATA frame sent: its WINDOW_UPDATEs, and a PING for the round trip
	minCutData       = 512    // bytes of a DATA frame cut by the peer's window, below which nothing is subtracted

	resetWindow = 500                // streams over which early resets are judged: half of them are too many
	premature   = int64(time.Second) // a client that resets an unanswered stream sooner has had no use of it
)

// addControl counts n frames that are not part of a call.
func (g *floodGuard) addControl(n int) { g.control += n }

func (g *floodGuard) subtract(n int) { g.control = max(0, g.control-n) }

// sentData subtracts perData for a DATA frame of n bytes. A peer that grants its window in small parts causes small
// frames, for which nothing is subtracted.
func (g *floodGuard) sentData(n int, cut bool) {
	if !cut || n >= minCutData {
		g.subtract(perData)
	}
}

func (g *floodGuard) addStream() {
	if g.opened++; g.opened > resetWindow {
		g.opened, g.resets = 1, 0
	}
}

// addReset counts a stream that the client reset or whose request it got wrong.
func (g *floodGuard) addReset() { g.resets++ }

// checkFlood returns the error that ends the connection of a peer that exceeds a limit.
func (c *conn) checkFlood() *connError {
	if g := &c.guard; g.control <= maxControl && g.resets <= resetWindow/2 {
		return nil
	}
	return c.checkFloodLimits()
}

func (c *conn) checkFloodLimits() *connError {
	g, limit := &c.guard, maxControl
	switch {
	case c.pool != nil:
		limit *= backendFactor
	case g.resets > resetWindow/2:
		return &connError{errEnhanceYourCalm, "too many resets"}
	}
	if g.control <= limit {
		return nil
	}
	g.subtract(int(min((c.sh.now-g.since)/int64(time.Second)*controlPerSecond, int64(g.control))))
	g.since = c.sh.now
	if g.control <= limit {
		return nil
	}
	return &connError{errEnhanceYourCalm, "too many control frames"}
}
