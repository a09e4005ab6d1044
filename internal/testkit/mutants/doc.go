// Command mutants checks that tests detect defects: it breaks one decision of the product at a time, runs the tests
// that should fail, and reports the mutants that survive. `make mutants` runs it.
//
// The mutants are in the files testdata/mutants.yaml beside the tests of their packages. Each is a list of:
//
//	intent:    what is broken, as a sentence; unique in the repository
//	func:      the declaration that changes: Function, (Type).Method without a star, or the name of a type or
//	           variable
//	file:      its file, relative to the package; needed only if several files declare such a function, or for a
//	           program in Lua, which has no func
//	old, new:  the text in it, which occurs once, and its replacement
//	tests:     the tests that should fail: a list of arguments of `go test`, from the package, such as
//	           "-run TestX ../gateway"; default all tests of the package
//	survives:  the reason if no test can fail: the mutant is then not run
//
// The compiler gets a mutant as an overlay, so the checkout does not change. A mutant that does not compile is an
// error. So is a mutant whose tests fail without it, or whose text no longer occurs. TestMutantsApply finds the latter
// in every test run.
package main
