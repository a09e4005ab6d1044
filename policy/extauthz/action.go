package extauthz

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictjson"
)

const (
	// maxArgs keeps a request, which contains them twice, below the 4 MiB limit of a gRPC server: too
	// long arguments must not look like a failing Shield.
	maxArgs = 1 << 20
	// maxTool bounds a tool's name, which the caller chooses.
	maxTool = 512
	// defaultKind is the type of a call without a tool name.
	defaultKind = "tool_call"
)

// Action is a call as Shield sees it.
type Action struct {
	Kind string // its type
	Tool string // capability__tool
	Args []byte // a JSON object

	hash   hash   // the key of its verdict
	tenant string // set before a request
}

type hash [sha256.Size]byte

// newAction makes an action. It does not parse the arguments yet.
func newAction(shield *Config, c *call.Call, args []byte) (*Action, *call.Refusal) {
	switch {
	case len(c.Tool) > maxTool || !utf8.ValidString(c.Tool):
		return nil, invalid(c, "the tool's name is not UTF-8, or longer than 512 bytes")
	case len(args) > maxArgs:
		return nil, invalid(c, "the arguments are longer than 1 MiB, the limit for a check by the shield")
	case len(args) == 0:
		args = []byte("{}")
	}
	a := &Action{Kind: cmp.Or(strings.ToLower(c.Tool), defaultKind), Tool: c.Capability + "__" + c.Tool, Args: args}
	if shield.Qualified {
		a.Kind = strings.ToLower(c.Capability) + "." + a.Kind // a capability's id has no dot
	}
	h := sha256.New()
	for _, word := range []string{c.Tenant, shield.Name, a.Kind, c.Capability, c.Tool} {
		var length [8]byte
		h.Write(binary.BigEndian.AppendUint64(length[:0], uint64(len(word))))
		h.Write([]byte(word))
	}
	h.Write(args)
	h.Sum(a.hash[:0])
	return a, nil
}

// check rejects arguments that Shield and a backend could parse differently.
func (a *Action) check(c *call.Call) *call.Refusal {
	if err := strictjson.Check(a.Args); err != nil {
		return invalid(c, "the shield cannot check the arguments: the JSON "+err.Error())
	}
	if !bytes.HasPrefix(bytes.TrimLeft(a.Args, " \t\r\n"), []byte("{")) {
		return invalid(c, "the shield cannot check the arguments: they are not a JSON object")
	}
	return nil
}

func invalid(c *call.Call, message string) *call.Refusal {
	return &call.Refusal{
		Kind: call.InvalidArgument, Reason: "ARGUMENTS_INVALID", Message: message,
		Metadata: map[string]string{"capability": c.Capability},
	}
}

func blocked(c *call.Call) *call.Refusal {
	return &call.Refusal{
		Kind: call.PermissionDenied, Reason: "SHIELD_BLOCKED", Message: "the shield of this capability blocks the call",
		Metadata: map[string]string{"capability": c.Capability},
	}
}

func unavailable(c *call.Call) *call.Refusal {
	return &call.Refusal{
		Kind: call.Unavailable, Reason: "SHIELD_UNAVAILABLE", RetryAfter: time.Second,
		Message:  "the shield of this capability cannot check the call at the moment; retry later",
		Metadata: map[string]string{"capability": c.Capability},
	}
}
