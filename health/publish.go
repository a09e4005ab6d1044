package health

import "time"

// Limits of publishing.
const (
	minPublishInterval = 100 * time.Millisecond // between two publish commands
	maxPublishInterval = 2 * time.Second        // the same, with many replicas and many changes
	publishEach        = 250 * time.Microsecond // of that, for each replica, and each changed shard and one more
	publishAfterLoss   = time.Second            // delay before a store that lost its content is written
	publishBackoff     = 2 * time.Second        // after a failed publish
	maxReports         = 1024                   // in one publish command
	maxDeletions       = 16 << 10               // pending deletions; further ones are left to garbage collection
)

// enqueue queues ep's observation in a role for the next publish.
func (r *Replica) enqueue(ep *endpoint, slot Role) {
	if !r.options.Shared {
		return
	}
	if !ep.unpublished[Primary] && !ep.unpublished[Secondary] {
		r.unpublished = append(r.unpublished, ep)
	}
	ep.unpublished[slot] = true
}

// enqueueDeletion queues a key for deletion with the next publish.
func (r *Replica) enqueueDeletion(k Key) {
	if r.options.Shared && len(r.deletions) < maxDeletions {
		r.deletions = append(r.deletions, k)
	}
}

// dueReports returns the reports to publish now.
func (r *Replica) dueReports(now time.Time) []Report {
	if !r.joined || r.isolated || r.publishing || now.Before(r.nextPublish) {
		return nil
	}
	var reports []Report
	for len(r.deletions) > 0 && len(reports) < maxReports {
		last := len(r.deletions) - 1
		reports = append(reports, Report{Key: r.deletions[last]})
		r.deletions = r.deletions[:last]
	}
	taken := 0
	for ; taken < len(r.unpublished) && len(reports) < maxReports; taken++ {
		ep := r.unpublished[taken]
		for role := range ep.unpublished {
			if ep.unpublished[role] && ep.observedHere(Role(role)) {
				v := ep.observations[role]
				reports = append(reports, Report{
					Key:         ep.key(Role(role)),
					Observation: v, Age: max(0, time.Duration(r.storeTime(now)-v.Since)*time.Millisecond),
				})
				ep.published[role] = true // OnPublish resets it after an error
			}
			ep.unpublished[role] = false
		}
	}
	r.unpublished = append(r.unpublished[:0], r.unpublished[taken:]...)
	clear(r.unpublished[len(r.unpublished):cap(r.unpublished)])
	r.publishing = len(reports) > 0
	return reports
}

// publishInterval returns the time to wait after a publish. Each replica may have as much to publish, and the store
// needs about a tenth of that time for all of them.
func (r *Replica) publishInterval(reports []Report) time.Duration {
	changed := map[int]struct{}{}
	for _, report := range reports {
		changed[ShardOf(report.Capability)] = struct{}{}
	}
	each := time.Duration(len(changed)+1) * publishEach
	return min(max(minPublishInterval, time.Duration(len(r.live))*each), maxPublishInterval)
}

// OnPublish takes the result of a publish that Step requested.
func (r *Replica) OnPublish(now time.Time, reports []Report, waiting []Waiting, err error) {
	r.publishing = false
	r.nextPublish = now.Add(r.publishInterval(reports))
	if err == nil {
		waits := map[int]bool{}
		for _, w := range waiting {
			waits[w.Shard] = true
			r.expect(now, w)
		}
		for _, report := range reports {
			if ep := r.find(report.Key); ep != nil && waits[ep.fleet.shard] {
				ep.waits[report.Role] = true
			}
		}
		return
	}
	r.nextPublish = now.Add(r.jitter(publishBackoff, 0.5))
	for _, report := range reports {
		if report.Observation == nil {
			r.enqueueDeletion(report.Key)
			continue
		}
		switch ep := r.find(report.Key); {
		case ep == nil:
		case ep.observedHere(report.Role):
			ep.published[report.Role] = false
			r.enqueue(ep, report.Role)
		default: // the store may have another one, which the report's has replaced here
			r.invalidate(ep.fleet.shard)
		}
	}
}
