package call

// Progress reports whether a call may have been carried out. The driver of gateway owns it. The relay,
// which knows no calls, has two facts about a stream instead: its Handler's Unsent is Progress NotSent, and
// Status.NoRetry follows from Sent.
type Progress uint8

// The degrees of progress, and what a client learns of each from the status of a call.
const (
	NotSent  Progress = iota // no backend got the call: the status says NotStarted, as repeating the call does no harm
	Sent                     // a backend may have carried it out: nothing invites the client to repeat it
	Answered                 // the service of the call has answered: its answer alone says what it did
)
