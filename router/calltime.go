package router

import (
	"strings"
	"time"
)

// callTime estimates the time that a tenant's calls of a fleet need at least, from their first byte at a backend to
// their end: nine of ten need more. Calls with less time left are very likely to do work that is lost.
type callTime struct{ expected time.Duration } // 0: unknown

// observe takes the time of a call; 0: unknown. The estimate falls by a quarter for a faster call, and rises nine
// times less for a slower one. It thus stays where a tenth of the calls are faster.
func (t *callTime) observe(took time.Duration) {
	switch e := t.expected; {
	case took <= 0:
	case e == 0:
		t.expected = took
	case took < e:
		t.expected = max(e-e/4, took)
	default:
		t.expected = min(e+e/36+1, took)
	}
}

// callTimes holds the estimates of a fleet by tenant, so that slow calls of one tenant cause no refusals of another.
type callTimes map[string]*callTime

// maxCallTimes bounds the tenants with an estimate in a fleet. A further tenant replaces an arbitrary one.
const maxCallTimes = 1000

// of returns the estimate of a tenant.
func (t callTimes) of(tenant string) *callTime {
	if one := t[tenant]; one != nil {
		return one
	}
	if len(t) >= maxCallTimes {
		for other := range t {
			delete(t, other)
			break
		}
	}
	one := &callTime{}
	t[strings.Clone(tenant)] = one
	return one
}
