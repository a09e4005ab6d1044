package verify

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// racers is the number of concurrent calls, and of concurrent answers.
const racers = 8

// race runs a function concurrently, with the number of each run.
func race(run func(i int)) {
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range racers {
		all.Go(func() {
			<-begin
			run(i)
		})
	}
	close(begin)
	all.Wait()
}

func (v *verifier) checkRedemptions(ctx context.Context) (result, why string) {
	found, err := v.approved(ctx, attempt{session: "redemptions"})
	if err != nil {
		return NotChecked, err.Error()
	}
	var ran atomic.Int32
	ends := make([]ending, racers)
	race(func(i int) {
		ends[i] = v.try(ctx, attempt{session: "redemptions", approval: found.GetId(), replica: i})
		if ends[i].ran {
			ran.Add(1)
		}
	})
	switch n := ran.Load(); {
	case n > 1:
		return Fail, fmt.Sprintf("%d of %d calls ran", n, racers)
	case n == 0:
		return NotChecked, ends[0].unclear()
	}
	for _, end := range ends {
		if !end.ran && end.reason == "" {
			return NotChecked, end.unclear() // it may have run
		}
	}
	return Pass, ""
}

func (v *verifier) checkAnswers(ctx context.Context) (result, why string) {
	found, err := v.ask(ctx, attempt{session: "answers"})
	if err != nil {
		return NotChecked, err.Error()
	}
	if n := found.GetRequiredAnswers(); n > 1 {
		return NotChecked, fmt.Sprintf("the call needs the answers of %d approvers", n)
	}
	errs := make([]error, racers)
	race(func(i int) {
		if i%2 == 0 {
			_, errs[i] = v.approve(ctx, found.GetId())
		} else {
			errs[i] = v.deny(ctx, found.GetId(), note)
		}
	})
	winner, counted := "", 0
	for i, err := range errs {
		if err == nil {
			winner = map[bool]string{true: "approved", false: "denied"}[i%2 == 0]
			counted++
		}
	}
	now, err := v.get(ctx, found.GetId())
	switch {
	case counted > 1:
		return Fail, fmt.Sprintf("%d of %d answers were accepted", counted, racers)
	case counted == 0:
		return NotChecked, errs[0].Error()
	case err != nil:
		return NotChecked, err.Error()
	case now.GetState() != winner:
		return Fail, "the answer was " + winner + ", and the approval is " + now.GetState()
	}
	return Pass, ""
}
