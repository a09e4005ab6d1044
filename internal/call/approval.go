package call

import "time"

// Approval is an approval that a call waits for, as the front door of the call needs to know it.
type Approval struct {
	ID      string
	Link    string    // address of the page that answers it; "" if there is none
	Expires time.Time // end of the time to answer; zero: unknown
	Pending bool      // it is not answered yet
}
