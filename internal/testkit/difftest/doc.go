// Package difftest proves that the gateway and its backends read every call alike: a backend runs the call that
// capgate authorized and recorded.
//
// Messages, JSON, paths and headers, random and adversarial, pass through the real program to real backends. Each
// backend reports the calls that it decoded and ran, and the test compares the reports with the audit log and with
// the configuration. TestDifferential generates calls from a seed for the time of -for; TestCorpus sends cases that
// were once ambiguous; TestEncoders sends the output of encoders in many languages, all of which must pass.
//
//	attempt_test.go      one call, byte for byte, and its wire format
//	generate*_test.go    generated attempts
//	corpus_test.go       known attempts
//	gateway_test.go      the program under test, and its audit log
//	backends*_test.go    the backends, and their reports
//	judge_test.go        the judgement of a call
//	shrink_test.go       the smallest attempt that still fails
//	encoders_test.go     clients in programs of their own
//	uploads_test.go      calls with a response before the end of the request
//	python, node, …      backends and clients in other languages
//
// It has only test code.
package difftest
