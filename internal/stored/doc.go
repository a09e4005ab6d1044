// Package stored has small objects with a name that operators store, for the callers of a tenant or of all, such as
// toolsets. Each replica has all of them in memory.
//
//	record.go  Kind, Record and Store
//	mirror.go  Mirror: the objects that a replica has
package stored
