package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/capgate/capgate/gateway/admin"
)

const statusUsage = `Usage: capgate status [flags] [CAPABILITY]

Shows the fleets of a gateway: their backends, the state of each with its reason and age, the
replica that probes it, and the calls and latency that the queried replica measures. With
--tenants it shows tenants with limits and their usage instead. With --json it prints one line:
the object of GET /v1/fleets or /v1/limits. --watch repeats the output.

Exit status: 0 on success; 2 for a wrong command line; 3 if the gateway could not be reached.

Flags:
`

// statusCommand is capgate status, as the command line describes it.
type statusCommand struct {
	port       *adminClient
	capability string // "": all
	json       bool
	tenants    bool // instead of fleets
	std        stdio
}

func runStatus(ctx context.Context, args []string, std stdio) int {
	s := statusCommand{std: std}
	fs := flag.NewFlagSet("status", flag.ContinueOnError)
	admin := addAdmin(fs)
	fs.BoolVar(&s.json, "json", false, "print JSON")
	fs.BoolVar(&s.tenants, "tenants", false,
		"show tenants that called recently, and the usage of their limits")
	watch := fs.Bool("watch", false, "repeat until Ctrl-C")
	every := fs.Duration("every", 2*time.Second, "`interval` of --watch")
	words, status, ok := parseLine(fs, args, 1, statusUsage, std)
	if !ok {
		return status
	}
	var err error
	switch {
	case *every <= 0:
		err = errors.New("--every must be more than 0s")
	case given(fs, "every") && !*watch:
		err = errors.New("--every requires --watch")
	case s.tenants && len(words) > 0:
		err = errors.New("--tenants takes no CAPABILITY")
	default:
		s.port, err = newAdminClient(*admin)
	}
	if err != nil {
		return wrongLine(fs, err, std)
	}
	if len(words) == 1 {
		s.capability = words[0]
	}
	err = s.show(ctx, "")
	if err == nil && *watch {
		s.watch(ctx, *every)
	}
	if err != nil {
		fmt.Fprintf(std.err, "capgate status: %v\n", err)
		return exitTransport
	}
	return 0
}

// watch shows the fleets until ctx ends, and goes on when the gateway does not answer.
func (s *statusCommand) watch(ctx context.Context, every time.Duration) {
	before := "\n"
	if s.json {
		before = ""
	} else if isTerminal(s.std.out) {
		before = "\x1b[H\x1b[2J" // from the top of an empty screen
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := s.show(ctx, before); err != nil && ctx.Err() == nil {
			fmt.Fprintf(s.std.err, "capgate status: %v\n", err)
		}
	}
}

// show asks once, and prints the answer behind the text before.
func (s *statusCommand) show(ctx context.Context, before string) error {
	if s.tenants {
		return s.showTenants(ctx, before)
	}
	all, err := s.fleets(ctx)
	if err != nil {
		return err
	}
	if s.json {
		line, err := json.Marshal(all)
		if err == nil {
			_, err = fmt.Fprintf(s.std.out, "%s\n", line)
		}
		return err
	}
	_, err = fmt.Fprint(s.std.out, before+statusTable(all, time.Now()))
	return err
}

// fleets returns all fleets, or the requested one.
func (s *statusCommand) fleets(ctx context.Context) (all admin.Fleets, err error) {
	all.Fleets = []admin.Fleet{}
	for token := ""; ; {
		var page admin.Fleets
		query := url.Values{"page_size": {fmt.Sprint(admin.MaxPage)}, "page_token": {token}, "capability": {s.capability}}
		if err := s.port.do(ctx, http.MethodGet, "/v1/fleets?"+query.Encode(), nil, &page); err != nil {
			return all, err
		}
		all.Gateway, all.TotalSize = page.Gateway, page.TotalSize
		all.Fleets = append(all.Fleets, page.Fleets...)
		if token = page.NextPageToken; token == "" {
			return all, nil
		}
	}
}

// isTerminal reports whether w is a terminal.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
