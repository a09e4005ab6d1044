package calls

import (
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
)

// known returns a refusal of a code or an outcome that no call can have. "" and "*" are for any.
func known(code, outcome string) *call.Refusal {
	for _, f := range []struct {
		name, value string
		all         []string
	}{{"code", code, codeNames()}, {"outcome", outcome, []string{"success", "tool_error", "incomplete"}}} {
		if f.value != "" && f.value != "*" && !slices.Contains(f.all, f.value) {
			return call.InvalidField(invalid, f.name, "it must be * or one of "+strings.Join(f.all, ", "))
		}
	}
	return nil
}

// codeNames returns the names of the codes of gRPC, as calls have them.
func codeNames() (names []string) {
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		names = append(names, telemetry.CodeName(uint32(c)))
	}
	return names
}
