package mcp

import (
	"context"
	"encoding/json"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/internal/lib/tokenbucket"
)

// A call passes a burst of log messages, and then one in each logEvery. Further ones are dropped.
const (
	logBurst = 64
	logEvery = time.Second / 16
)

// setLevelMethod sets the level of a session (2025-11-25, Logging).
const setLevelMethod = "logging/setLevel"

func newLogPace() *tokenbucket.Bucket { return tokenbucket.New(logBurst, logEvery) }

// level returns the level of the log messages that the client has requested; 0 means none.
func (a *asker) level() questions.Level {
	if a == nil || a.of == nil || a.of.Log == nil {
		return 0
	}
	return a.of.Level
}

// log sends a log message of the server to the client of the call, and to no log of the gateway. It drops messages that
// are invalid, below the client's level, or above the rate of a call.
func (ex *exchange) log(params json.RawMessage) {
	least := ex.asks.level()
	if least == 0 {
		return
	}
	text, level, err := questions.ReadLog(params)
	if err == nil && level >= least && ex.asks.logs.Take(time.Now()) == 0 {
		ex.asks.of.Log(ex.ctx, text)
	}
}

// setLevel sets the level of log messages in a session, unless the session has it or a lower one. Since 2026-07-28 each
// request has the level. An error of the server is ignored, because log drops the messages below the level.
func (v *server) setLevel(ctx context.Context, o *opened, level questions.Level) {
	about := o.InitializeResult()
	//nolint:staticcheck // deprecated, and still a part of the protocol
	if level == 0 || about.ProtocolVersion >= modern || about.Capabilities == nil || about.Capabilities.Logging == nil {
		return
	}
	if o.link.place.Load() != nil { // another replica may need a lower level, or may set a higher one
		level = questions.Lowest
	}
	if is := o.link.level.Load(); is != 0 && questions.Level(is) <= level {
		return
	}
	ex, end := begin(ctx, setLevelMethod, nil)
	defer end()
	//nolint:staticcheck // deprecated, and still a part of the protocol
	_ = o.SetLoggingLevel(ex.ctx, &sdk.SetLoggingLevelParams{Level: sdk.LoggingLevel(level.String())})
	if ctx.Err() == nil {
		o.link.level.Store(uint32(level))
	}
}
