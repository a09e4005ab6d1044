package notice

import "strconv"

// Limit is the use of a quota that is nearly used up. It is the data of an event.
type Limit struct {
	Tenant     string `json:"tenant"`
	Text       string `json:"text"`                 // the same in words
	Limit      string `json:"limit"`                // per_day or per_month
	Per        string `json:"per,omitempty"`        // a limit for each user, agent or capability; "": for all
	Capability string `json:"capability,omitempty"` // a limit of some calls; "": of all
	Tool       string `json:"tool,omitempty"`
	Period     string `json:"period"` // in UTC, as in 2026-11-29 or 2026-11
	Used       int64  `json:"used"`   // calls
	Max        int64  `json:"max"`
}

// OfLimit returns the notice of a quota that is nearly used up.
func OfLimit(l *Limit) Notice {
	n := Notice{Title: "A tenant is near a limit", What: inline(l.Text, maxWords)}
	n.add("Use", l.Text, maxWords)
	n.add("Tenant", l.Tenant, maxValue)
	n.add("Limit", l.Limit, maxValue)
	n.add("For each", l.Per, maxValue)
	n.add("Capability", l.Capability, maxValue)
	n.add("Tool", l.Tool, maxValue)
	n.add("Period", l.Period, maxValue)
	n.add("Calls", strconv.FormatInt(l.Used, 10)+" of "+strconv.FormatInt(l.Max, 10), maxValue)
	return n
}
