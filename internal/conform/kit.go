package conform

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/container"
	"github.com/capgate/capgate/internal/manifest"
)

// Call is a call of a tool.
type Call struct {
	Tool string
	Args []byte // a JSON object
}

// Kit checks one container. The zero value of all but Target works.
type Kit struct {
	Target   container.Target
	Dialects []call.Dialect     // to check; default all of the container
	Manifest *manifest.Manifest // the container's; if nil, the discovery tool is called
	Harmless Call               // call without side effects; without a Tool, no tool is called unless Compose is set
	BadArgs  []byte             // arguments with which that tool fails; default none, or invalid JSON with Compose
	// Compose finds the harmless call in the manifest or by discovery, and composes its arguments.
	Compose bool
	Slow    Call // a call that takes seconds; without a Tool, unfinished requests are used

	Wait    time.Duration // for readiness; default 30 s, the orchestrator's
	Timeout time.Duration // of one check; default 20 s
	Largest int           // size of the largest request in bytes; default gRPC's 4 MiB, and a note about 16 MiB
	Grace   time.Duration // for the end of a call after its deadline, and of others after canceled ones; default 5 s
}

func (k Kit) withDefaults() Kit {
	k.Wait = cmp.Or(k.Wait, 30*time.Second)
	k.Timeout = cmp.Or(k.Timeout, 20*time.Second)
	k.Grace = cmp.Or(k.Grace, 5*time.Second)
	if k.Compose && k.BadArgs == nil {
		k.BadArgs = []byte(`{"broken":`)
	}
	return k
}

// run is the check of one dialect, with the results that later checks need.
type run struct {
	Kit
	client container.Client

	tools    container.Tools
	toolsErr error

	harmless Call
	unknown  error  // reason if there is no harmless call
	good     bool   // the harmless call works
	result   []byte // of it
	steady   bool   // the result is the same each time
	stream   streamed
	files    files
}

// Run checks all rules and calls tell with each result. It returns early if ctx ends.
func (k Kit) Run(ctx context.Context, tell func(Result)) Report {
	k = k.withDefaults()
	report := Report{Address: k.Target.Addr, Results: []Result{}}
	done := func(one Result) {
		report.add(one)
		tell(one)
	}
	conn, spoken := k.connect(ctx, done)
	if conn == nil {
		return report
	}
	defer func() { _ = conn.Close() }()
	for _, s := range spoken {
		r := &run{Kit: k, client: container.Client{Conn: conn, Dialect: s.Dialect}}
		for _, rule := range Rules() {
			if rule.in.has(s.Dialect) && ctx.Err() == nil {
				done(rule.result(s.Dialect.String(), r.try(ctx, rule)))
			}
		}
	}
	return report
}

// try checks one rule within its timeout.
func (r *run) try(ctx context.Context, rule Rule) error {
	ctx, cancel := context.WithTimeout(ctx, max(r.Timeout, r.Wait))
	defer cancel()
	return rule.check(ctx, r)
}

// connect connects to the container and returns the dialects to check.
func (k Kit) connect(ctx context.Context, done func(Result)) (*grpc.ClientConn, []container.Spoken) {
	ctx, cancel := context.WithTimeout(ctx, k.Wait)
	defer cancel()
	port, dialect := firstRules()
	err := k.reach(ctx)
	var conn *grpc.ClientConn
	if err == nil {
		conn, err = k.Target.Dial()
	}
	done(port.result("", err))
	if err != nil {
		return nil, nil
	}
	found := container.Probe(ctx, conn)
	var wanted []container.Spoken
	for _, s := range found.Spoken {
		if len(k.Dialects) == 0 || slices.Contains(k.Dialects, s.Dialect) {
			wanted = append(wanted, s)
		}
	}
	switch {
	case found.Silent != "":
		err = errors.New("it does not respond to calls: " + found.Silent)
	case len(found.Spoken) == 0:
		err = errors.New("it has none of the services selu.capability.Capability, selu.capability.v1.Capability " +
			"and selu.capability.v1.CapabilityService")
	case len(wanted) == 0:
		err = errors.New("it speaks " + found.Spoken[0].Dialect.String())
	}
	done(dialect.result("", err))
	return conn, wanted
}

// reach waits for a starting server.
func (k Kit) reach(ctx context.Context) error {
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	var nothing error // last observed error
	for {
		err := k.Target.Reach(ctx)
		var why *container.Problem
		switch {
		case err != nil && over(ctx): // the last attempt was cut off
			return cmp.Or(nothing, err)
		case err == nil || !errors.As(err, &why) || why.Kind != container.NothingThere:
			return err
		}
		nothing = err
		select {
		case <-ctx.Done():
			return err
		case <-again.C:
		}
	}
}

// over reports whether the deadline of ctx has passed. Connections notice that before ctx does.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

func (rule Rule) result(dialect string, err error) Result {
	one := Result{Verdict: Pass, Rule: rule.Name, Dialect: dialect, Says: rule.Says, Source: rule.Source}
	var cannot skip
	var noted note
	switch {
	case errors.As(err, &noted):
		one.Verdict, one.Why = Note, string(noted)
	case errors.As(err, &cannot):
		one.Verdict, one.Why = Skip, string(cannot)
	case err != nil:
		one.Verdict, one.Why = Fail, err.Error()
	}
	return one
}
