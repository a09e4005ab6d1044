// Command mutants checks that tests notice: it breaks one decision of the product at a time, runs the tests that should
// fail, and reports the mutants that survive. `make mutants` runs it.
//
// The mutants are in the files testdata/mutants.yaml beside the tests of their packages. Each is a list of:
//
//	intent:    what is broken, as a sentence; unique in the repository
//	func:      the declaration that changes: Function, (Type).Method without a star, or the name of a type or variable
//	file:      its file, relative to the package; needed only if several files declare such a function, or for a
//	           program in Lua, which has no func
//	old, new:  the text in it, which occurs once, and what replaces it
//	tests:     what should fail: a list of arguments of `go test`, from the package, as in "-run TestX ../gateway"; default
//	           all tests of the package
//	survives:  why no test can fail, if none can: the mutant is then not run
//
// A mutant reaches the compiler by an overlay, so that the checkout stays as it is. One that does not compile is an
// error, and so is one whose tests fail without it, or whose text no longer occurs: TestMutantsApply finds the latter
// in every run of the tests.
package main
