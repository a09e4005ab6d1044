// Package changefeed keeps a replica's cache consistent with a store that all replicas share.
//
// A writer gives each change a version, one more than the last, and publishes the change on a
// channel that may lose messages. A replica subscribes to the channel, and asks each half second
// for the version of the last change. A change that has not arrived before the second version
// that includes it counts as lost: the replica then invalidates its whole cache.
//
//	Feed ──changes──► watcher ──► Cache
//	  └───version───────┘
package changefeed
