package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// httpRun is a window of JSON calls over HTTP/1.1, made with Go's client. That costs more than the proxy:
// it tells how long callers wait, and what the proxy spends, but not what the proxy could do.
type httpRun struct {
	cfg    *Config
	client *http.Client
	url    string
	body   []byte

	mu        sync.Mutex
	res       Result
	latencies []time.Duration
	measuring bool
}

// runHTTP does one window, Closed or Open, each connection with a call at a time.
func runHTTP(cfg Config) (Result, error) {
	cfg.setDefaults()
	if cfg.Method != Invoke || cfg.Mode == Hold || cfg.TLS {
		return Result{}, errors.New("over HTTP only Invoke in cleartext is supported, with closed or open loops")
	}
	r := &httpRun{
		cfg: &cfg, client: &http.Client{Transport: &http.Transport{MaxConnsPerHost: cfg.Conns,
			MaxIdleConnsPerHost: cfg.Conns}, Timeout: patience},
		url:  fmt.Sprintf("http://%s/v1/capabilities/%s/tools/%s", cfg.Target, cfg.Capability, cfg.Work),
		body: fmt.Appendf(nil, `{"filler":%q}`, bytes.Repeat([]byte("x"), cfg.RequestSize)),
	}
	if err := cfg.Turn.take(false); err != nil {
		return Result{}, err
	}
	ctx, stop := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	began := time.Now()
	for i := range cfg.Conns {
		workers.Go(func() { r.work(ctx, began, i) })
	}
	time.Sleep(cfg.Warm)
	err := r.measure()
	stop()
	workers.Wait()
	return r.res, err
}

// work makes one connection's calls. In an open loop a call's time begins when it is due, whether
// or not the one before has ended.
func (r *httpRun) work(ctx context.Context, began time.Time, i int) {
	var every time.Duration
	due := began
	if r.cfg.Mode == Open {
		every = time.Second * time.Duration(r.cfg.Conns) / time.Duration(r.cfg.Rate)
		due = due.Add(every * time.Duration(i) / time.Duration(r.cfg.Conns))
	}
	for ctx.Err() == nil {
		if every == 0 {
			due = time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(due)):
		}
		err := r.call()
		r.done(time.Since(due), err)
		due = due.Add(every)
	}
}

// errStatus is an answer other than 200.
type errStatus int

func (e errStatus) Error() string { return fmt.Sprintf("status %d", int(e)) }

func (r *httpRun) call() error {
	req, err := http.NewRequest(http.MethodPost, r.url, bytes.NewReader(r.body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if r.cfg.Key != "" {
		req.Header.Set("Authorization", "Bearer "+r.cfg.Key)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err = io.Copy(io.Discard, resp.Body); err == nil && resp.StatusCode != http.StatusOK {
		err = errStatus(resp.StatusCode)
	}
	return err
}

func (r *httpRun) done(took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var answer errStatus
	switch {
	case err == nil:
		r.res.Total++
		if r.measuring {
			r.res.Calls++
			if len(r.latencies) < maxLatencies {
				r.latencies = append(r.latencies, took)
			}
		}
	case r.cfg.Flood && errors.As(err, &answer):
		r.res.Refused++
	default:
		r.res.Errors++
		r.res.Problem = err.Error()
	}
}

func (r *httpRun) measure() error {
	before, err := r.cfg.usage()
	if err != nil {
		return err
	}
	r.count(true)
	start := time.Now()
	time.Sleep(r.cfg.Window)
	r.count(false)
	r.res.Seconds = time.Since(start).Seconds()
	after, err := r.cfg.usage()
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.res.used(before, after)
	r.res.waited(r.latencies)
	return nil
}

// count says whether calls that end are in the window.
func (r *httpRun) count(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.measuring = on
}
