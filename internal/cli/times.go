package cli

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// short returns a duration in its largest unit, as kubectl shows ages: 90s, 5m, 30h, 3d. Negative ones are 0s.
func short(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// age returns the time since then, for a column AGE; "-" for no time.
func age(then *timestamppb.Timestamp, now time.Time) string {
	if then == nil {
		return "-"
	}
	return short(now.Sub(then.AsTime()))
}

// ageOf returns the age of a time of a message.
func ageOf(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return short(time.Since(t.AsTime()))
}

// ends returns the distance of a time that may lie ahead: in 5m, or 5m ago; never for no time.
func ends(t *timestamppb.Timestamp) string {
	if t == nil {
		return "never"
	}
	left := time.Until(t.AsTime())
	if left < 0 {
		return short(-left) + " ago"
	}
	return "in " + short(left)
}

// when returns a time in full, with its distance: 2026-01-02T12:00:00Z (5m ago).
func when(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().Format(time.RFC3339) + " (" + ends(t) + ")"
}

// at returns a time of an engine's, in seconds since 1970; 0: unknown.
func at(seconds int64) *timestamppb.Timestamp {
	if seconds == 0 {
		return nil
	}
	return &timestamppb.Timestamp{Seconds: seconds}
}

// latency returns a measured duration, in milliseconds, with two or three digits.
func latency(ms float64) string {
	d := time.Duration(ms * float64(time.Millisecond))
	switch {
	case d <= 0:
		return "-"
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < 100*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	default:
		return d.Round(time.Millisecond).String()
	}
}
