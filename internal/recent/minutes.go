package recent

import "time"

// Window is the time that counts cover.
const Window = 15

// Counts are numbers of calls that ended.
type Counts struct {
	Calls      int64
	Refusals   int64 // refused by the gateway
	Errors     int64 // failed otherwise
	Asked      int64 // not run yet, because they need approval; neither refusals nor errors
	ToolErrors int64 // answered by a tool with an error, or cut off
}

// Add adds further calls.
func (c *Counts) Add(d Counts) {
	c.Calls += d.Calls
	c.Refusals += d.Refusals
	c.Errors += d.Errors
	c.Asked += d.Asked
	c.ToolErrors += d.ToolErrors
}

// Minute counts the calls that ended in a minute.
type Minute struct {
	Began time.Time
	Counts
}

// minuteOf returns the number of the minute of a time.
func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// minutes holds the counts of this replica by minute and tenant. The tenant "" counts unauthenticated calls, and the
// calls of tenants beyond maxOwners.
type minutes map[int64]map[string]Counts

// add adds counts of a minute, and removes those that are older than the window.
func (m minutes) add(minute int64, tenant string, d Counts) {
	of := m[minute]
	if of == nil {
		of = map[string]Counts{}
		m[minute] = of
		for old := range m {
			if old <= minute-Window {
				delete(m, old)
			}
		}
	}
	if _, there := of[tenant]; !there && len(of) > maxOwners {
		tenant = ""
	}
	c := of[tenant]
	c.Add(d)
	of[tenant] = c
}

// list returns the window that ends now, the sum of some tenants; nil: of all.
func (m minutes) list(now time.Time, tenants []string) []Minute {
	list := make([]Minute, Window)
	for i := range list {
		minute := minuteOf(now) - Window + 1 + int64(i)
		list[i].Began = time.Unix(60*minute, 0).UTC()
		if tenants == nil {
			for _, c := range m[minute] {
				list[i].Add(c)
			}
		}
		for _, tenant := range tenants {
			list[i].Add(m[minute][tenant])
		}
	}
	return list
}
