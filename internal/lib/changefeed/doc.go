// Package changefeed keeps what a replica knows in memory consistent with a store that all replicas share. A store
// publishes its changes on a channel that may lose messages, so no promise rests on their delivery.
//
//	Poll      reads the store after each notification, and when an interval has passed
//	Run       applies each delivered change to a cache, and notices by the store's version what was not delivered
//	Position  is how far a replica has read, and shows that a store has lost its content
//
// For Run, a writer gives each change a version, one more than the last. A replica subscribes to the channel, and
// requests each half second the version of the last change. A change that has not arrived before the second version
// that includes it counts as lost: the replica then invalidates its whole cache.
//
//	Feed ──changes──► watcher ──► Cache
//	  └───version───────┘
package changefeed
