// Package difftest proves that the gateway and its backends read every call alike: what capgate
// decides on, and records, is what a backend runs.
//
// Messages, JSON, paths and headers, random and adversarial, go through the real program to real
// backends. Each backend tells what it decoded and ran, and the test compares that with the
// audit log and with what the configuration allows. TestDifferential makes calls up for as long
// as -for says, from a seed; TestCorpus sends the cases that were once read in two ways;
// TestEncoders sends what the encoders of many languages write, all of which must pass.
//
//	attempt_test.go      one call, byte for byte, and how it is written to the wire
//	generate*_test.go    attempts that are made up
//	corpus_test.go       attempts that are known
//	gateway_test.go      the program under test, and its audit log
//	backends*_test.go    the backends, and what they tell
//	judge_test.go        what must hold of a call
//	shrink_test.go       the smallest attempt that still fails
//	encoders_test.go     clients that are programs of their own
//	uploads_test.go      calls that are answered while their clients still send
//	python, node, …      backends and clients in other languages
//
// It has no code but tests.
package difftest
