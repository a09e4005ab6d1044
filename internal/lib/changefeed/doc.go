// Package changefeed keeps what a replica has in memory true to what all replicas share.
//
// Whoever changes what is shared gives the change a number, one more than the last, and
// tells it on a channel that may lose messages. So a replica listens, and asks each half
// second for the number of the last change: what was not told by the second time that it is
// counted is lost, and everything has to be asked for anew.
//
//	Feed ──told──► follower ──► Copy
//	  └──version──────┘
package changefeed
