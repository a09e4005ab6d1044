// Package contract runs the same tests on every implementation of a store, the fakes of tests included.
package contract

import "testing"

// Suite has the tests of a store's interface S, by the promise that each one checks. open returns the store of one
// more replica. All stores of one test share data that no other test sees.
type Suite[S any] map[string]func(t *testing.T, open func() S)

// Run runs each test with a store of its own, which all its replicas use.
func (s Suite[S]) Run(t *testing.T, newStore func() S) {
	t.Helper()
	s.RunReplicas(t, func() func() S {
		store := newStore()
		return func() S { return store }
	})
}

// RunReplicas runs each test with data of its own. newData returns the function that opens a replica's store of it.
func (s Suite[S]) RunReplicas(t *testing.T, newData func() (open func() S)) {
	t.Helper()
	for promise, test := range s {
		t.Run(promise, func(t *testing.T) {
			t.Parallel()
			test(t, newData())
		})
	}
}
