package relay

import "time"

// floodGuard counts the useless work that a peer causes: control frames, resets, empty frames. Completed calls and
// sent data reduce the count. A connection that exceeds a limit ends with ENHANCE_YOUR_CALM (RFC 9113 §10.5).
type floodGuard struct {
	control int   // control frames, less those justified by useful work
	since   int64 // time up to which controlPerSecond was subtracted
	opened  int   // streams opened in the current resetWindow
	resets  int   // of these, streams without a result because of the client
}

const (
	maxControl       = 10_000 // control frames without useful work
	backendFactor    = 10     // factor for backends, which are trusted more
	controlPerSecond = 100    // subtracted over time, because connections may live for days
	perAnswer        = 16     // subtracted for an answered stream
	perData          = 4      // subtracted for a DATA frame sent: its WINDOW_UPDATEs, and a PING for the round trip
	minCutData       = 512    // bytes of a DATA frame cut by the peer's window, below which nothing is subtracted

	resetWindow = 500                // number of streams among which at most half may be reset early
	premature   = int64(time.Second) // a client that resets an unanswered stream earlier had no use for it
)

// addControl counts n frames that are not part of a call.
func (g *floodGuard) addControl(n int) { g.control += n }

func (g *floodGuard) subtract(n int) { g.control = max(0, g.control-n) }

// sentData subtracts perData for a DATA frame of n bytes. A peer that grants its window in small parts causes small
// frames, which do not count.
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

// addReset counts a stream that the client reset or whose request was malformed.
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
