// Package restjson encodes messages of capgate.v1 as the JSON of the admin API and of approvals: with the names of the
// protos, with lists and REQUIRED fields that are always present, and without other empty fields, as an empty limit is
// not a limit of 0. Lists that are OPTIONAL are absent when they are empty.
//
// Marshal returns the same text each time, on one line. protojson alone puts in blanks at random.
package restjson
