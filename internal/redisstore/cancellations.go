package redisstore

import "context"

// Cancellations carries names of requests that their clients have cancelled to the replicas that serve them. A name
// that no replica knows, or that is lost with a connection, has no effect.
type Cancellations struct{ client }

// Cancellations returns the channel of cancelled requests.
func (s *Store) Cancellations() *Cancellations { return &Cancellations{s.client(Session)} }

// Publish notifies all replicas of a canceled request.
func (c *Cancellations) Publish(ctx context.Context, request string) error {
	return c.publish(ctx, c.channel("cancelled"), request)
}

// Watch passes the names of cancelled requests to cancelled, which may not block, until ctx ends. connected is called
// after each subscription.
func (c *Cancellations) Watch(ctx context.Context, cancelled func(request string), connected func()) {
	c.subscribe(ctx, c.channel("cancelled"), cancelled, connected)
}
