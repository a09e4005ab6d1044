package health

import "time"

// How votes are posted.
const (
	postLeast     = 100 * time.Millisecond // least time between two posts
	postLongest   = time.Second            // the same, where there are many replicas and much to say
	postAfterLoss = time.Second            // until a board that has lost everything is written
	tellings      = 500_000                // a second: pages told to replicas, that all posts together may come to
	postFailed    = 2 * time.Second        // until one that failed is made again
	postMost      = 1024                   // reports in one post
	goneMost      = 16 << 10               // backends to be deleted that are remembered; others become garbage
)

// unposted makes t's vote in slot go into the next post.
func (r *Replica) unposted(t *target, slot Slot) {
	if !r.options.Shared {
		return
	}
	if !t.dirty[First] && !t.dirty[Second] {
		r.toPost = append(r.toPost, t)
	}
	t.dirty[slot] = true
}

// forget makes the votes on a backend go away with the next post.
func (r *Replica) forget(k Key) {
	if r.options.Shared && len(r.gone) < goneMost {
		r.gone = append(r.gone, k)
	}
}

// takePost takes the reports that are to be posted now.
func (r *Replica) takePost(now time.Time) []Report {
	if !r.met || r.alone || r.posting || now.Before(r.nextPost) {
		return nil
	}
	var reports []Report
	for len(r.gone) > 0 && len(reports) < postMost {
		last := len(r.gone) - 1
		reports = append(reports, Report{Key: r.gone[last]})
		r.gone = r.gone[:last]
	}
	n := 0
	for ; n < len(r.toPost) && len(reports) < postMost; n++ {
		t := r.toPost[n]
		for slot := range t.dirty {
			if t.dirty[slot] && t.votedHere(Slot(slot)) {
				v := t.votes[slot]
				reports = append(reports, Report{
					Key:  t.key(Slot(slot)),
					Vote: v, Age: max(0, time.Duration(r.theirs(now)-v.Since)*time.Millisecond),
				})
				t.posted[slot] = true // Posted says if it is not
			}
			t.dirty[slot] = false
		}
	}
	r.toPost = append(r.toPost[:0], r.toPost[n:]...)
	clear(r.toPost[len(r.toPost):cap(r.toPost)])
	r.posting = len(reports) > 0
	return reports
}

// rest returns how long to wait after a post. Each page that it changed is told to all
// replicas, and each of these may have as much to post.
func (r *Replica) rest(reports []Report) time.Duration {
	changed := map[int]struct{}{}
	for _, report := range reports {
		changed[PageOf(report.Capability)] = struct{}{}
	}
	told := len(changed) * len(r.alive) * len(r.alive)
	return min(max(postLeast, time.Duration(told)*time.Second/tellings), postLongest)
}

// Posted says how the post ended that Step asked for.
func (r *Replica) Posted(now time.Time, reports []Report, err error) {
	r.posting = false
	r.nextPost = now.Add(r.rest(reports))
	if err == nil {
		return
	}
	r.nextPost = now.Add(vary(postFailed, 0.5))
	for _, report := range reports {
		if report.Vote == nil {
			r.forget(report.Key)
		} else if t := r.find(report.Key); t != nil && t.votedHere(report.Slot) {
			t.posted[report.Slot] = false
			r.unposted(t, report.Slot)
		}
	}
}
