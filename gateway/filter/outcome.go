package filter

import (
	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/internal/telemetry"
)

// OutcomeOf returns the outcome of a tool from a scanner of its response.
func OutcomeOf(s *dialect.Scanner) telemetry.Outcome { return outcomes[s.Outcome()] }

var outcomes = [...]telemetry.Outcome{
	dialect.OutcomeUnknown: telemetry.NoOutcome,
	dialect.OK:             telemetry.Succeeded,
	dialect.ToolError:      telemetry.ToolError,
	dialect.CutOff:         telemetry.CutOff,
}
