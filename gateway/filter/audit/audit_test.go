package audit_test

import (
	"fmt"

	"github.com/capgate/capgate/gateway/filter/audit"
	"github.com/capgate/capgate/internal/testkit/filtertest"
)

// places is an audit log with a number of free places.
type places int

func (p *places) Reserve() bool {
	*p--
	return *p >= 0
}

// A log with one place accepts one call. The next one is rejected.
func Example() {
	left := places(1)
	f := audit.New(&left)
	for range 2 {
		c, _ := filtertest.NewCall()
		if rejection := f.Check(c); rejection != nil {
			fmt.Println(rejection.Reason)
			continue
		}
		fmt.Println(c.Audited)
	}
	// Output:
	// true
	// AUDIT_UNAVAILABLE
}
