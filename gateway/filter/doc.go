// Package filter defines the interfaces of filters: a Filter makes one decision about calls, and a Call is the state
// that several filters share.
//
//	filter.go      Filter, its steps, and the result that Done gets
//	call.go        Call, and how a filter rejects, answers or serves one
//	stream.go      the methods of a call's stream for filters, and how a filter makes the call wait
//	principal.go   the caller
//	client.go      the client's address, as reported by trusted proxies
//	peeked.go      the fields of the first message for routing and decisions
//	hold.go        memory for messages of calls that wait
//	rejections.go  rejections that several filters share
//
// The filters with state are folders below. Their order stands in gateway/chain.go alone, and the driver of the
// gateway calls them. The package decides nothing, and no filter imports another one.
package filter
