package history

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/internal/history"
	"github.com/capgate/capgate/internal/telemetry"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// maxRows bounds the rows of a list.
const maxRows = 1000

func responseOf(span history.Span, points, others []history.Dated, marks []history.Mark) *capgatepb.HistoryResponse {
	resp := &capgatepb.HistoryResponse{Span: span.Name, StepSeconds: int32(span.Step / time.Second)}
	var sum history.Point
	for i := range points {
		p := &points[i]
		sum.Add(&p.Point)
		resp.Steps = append(resp.Steps, &capgatepb.HistoryResponse_Step{Time: timestamppb.New(p.Began),
			Sums: sumsOf(&p.Point)})
	}
	resp.Sums = sumsOf(&sum)
	for i := range others {
		resp.OtherCalls += float64(others[i].Calls())
	}
	for reason, n := range sum.Reasons {
		resp.Reasons = append(resp.Reasons, &capgatepb.HistoryResponse_Reason{Reason: reason, Count: float64(n)})
	}
	slices.SortFunc(resp.GetReasons(), func(a, b *capgatepb.HistoryResponse_Reason) int {
		return cmp.Or(cmp.Compare(b.GetCount(), a.GetCount()), cmp.Compare(a.GetReason(), b.GetReason()))
	})
	slices.SortFunc(marks, func(a, b history.Mark) int { return a.At.Compare(b.At) })
	for i := range marks {
		m := &marks[i]
		resp.Marks = append(resp.Marks, &capgatepb.HistoryResponse_Mark{Time: timestamppb.New(m.At), Kind: m.Kind,
			Replica: m.Replica, Text: m.Text})
	}
	return resp
}

func sumsOf(p *history.Point) *capgatepb.HistorySums {
	sums := &capgatepb.HistorySums{Calls: float64(p.Calls()), Answered: float64(p.Results[telemetry.Answered]),
		ToolErrors: float64(p.Results[telemetry.ToolFailed]), Asked: float64(p.Results[telemetry.Asked]),
		Refused: float64(p.Results[telemetry.Refused]), Failed: float64(p.Results[telemetry.Failed]),
		P50Ms: millis(p.Quantile(0.5)), P99Ms: millis(p.Quantile(0.99))}
	if p.Seen > 0 {
		sums.Usable = new(float64(p.Usable) / float64(p.Seen))
	}
	return sums
}

// millis returns a duration in milliseconds, with three decimals.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// rowsOf returns the series with the most calls.
func rowsOf(sums map[history.Series]*history.Point) (rows []*capgatepb.ListHistoryResponse_Row) {
	for of, p := range sums {
		rows = append(rows, &capgatepb.ListHistoryResponse_Row{Capability: of.Group, Name: of.Name, Sums: sumsOf(p)})
	}
	slices.SortFunc(rows, func(a, b *capgatepb.ListHistoryResponse_Row) int {
		return cmp.Or(cmp.Compare(b.GetSums().GetCalls(), a.GetSums().GetCalls()),
			cmp.Compare(a.GetCapability(), b.GetCapability()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return rows[:min(len(rows), maxRows)]
}
