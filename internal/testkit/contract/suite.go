// Package contract runs the same tests on every implementation of a store, including the fakes of tests.
package contract

import "testing"

// Suite holds the tests of a store's interface S, by promise. open returns the store of another replica. All stores of
// one test share data that other tests do not see.
type Suite[S any] map[string]func(t *testing.T, open func() S)

// Run runs each test with its own store, which all replicas of the test share.
func (s Suite[S]) Run(t *testing.T, newStore func() S) {
	t.Helper()
	s.RunReplicas(t, func() func() S {
		store := newStore()
		return func() S { return store }
	})
}

// RunReplicas runs each test with its own data. newData returns the function that opens a replica's store of that data.
func (s Suite[S]) RunReplicas(t *testing.T, newData func() (open func() S)) {
	t.Helper()
	for promise, test := range s {
		t.Run(promise, func(t *testing.T) {
			t.Parallel()
			test(t, newData())
		})
	}
}
