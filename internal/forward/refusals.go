package forward

import (
	"sync/atomic"
	"time"
)

// refusalEvery is the minimum interval between logged refusals.
const refusalEvery = 10 * time.Second

// refusals logs what a gateway refuses: an orchestrator may not say it while it waits for a container.
type refusals struct {
	last atomic.Uint32 // the code of the last answer
	next atomic.Int64  // when the log may have another line, ns since 1970
}

// hints describe the usual causes of a gateway's codes (google.rpc.Code).
var hints = map[uint32]string{
	5:  "the gateway has no such capability, or the key may not call it",
	7:  "the key or the policy does not permit the call",
	12: "the gateway does not know the method; the URL may be that of another port",
	14: "no backend of the capability is ready, or the gateway is stopping: capgate status says more",
	16: "the gateway needs a key, which CAPGATE_KEY_FILE names",
}

// tell logs an answer with a code that the answer before did not have.
func (f *refusals) tell(h *handler, method string, code uint32) {
	if f.last.Swap(code) == code || hints[code] == "" {
		return
	}
	now, next := time.Now().UnixNano(), f.next.Load()
	if now >= next && f.next.CompareAndSwap(next, now+int64(refusalEvery)) {
		h.log.Warn("call refused", "method", method, "capability", h.settings.Capability, "code", code, "hint",
			hints[code])
	}
}
