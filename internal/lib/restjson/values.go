package restjson

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Strings returns a list of texts that JSON has also when it is empty.
func Strings(all []string) *structpb.ListValue {
	list := new(structpb.ListValue)
	for _, text := range all {
		list.Values = append(list.Values, structpb.NewStringValue(text))
	}
	return list
}

// Time returns a time of a message; nil for the zero time.
func Time(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// Int32 returns a number that JSON has without quotes, or the nearest one.
func Int32[N int | int64](n N) int32 { return int32(min(max(int64(n), math.MinInt32), math.MaxInt32)) }
