package restjson

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// Time returns a time of a message; nil for the zero time.
func Time(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// Int32 returns a number that JSON has without quotes, or the nearest one.
func Int32[N int | int64](n N) int32 { return int32(min(max(int64(n), math.MinInt32), math.MaxInt32)) }
