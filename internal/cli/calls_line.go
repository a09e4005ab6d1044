package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/untrusted"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// callCells are the parts of a line: the time, the caller, the tool, how the call ended, how long it took, and the id
// of the request.
type callCells struct {
	time, caller, tool, result, took, id string
	tint                                 string
}

// cellsOf returns the parts of the line of a call.
func cellsOf(c *capgatepb.RecentCall, layout string) callCells {
	cells := callCells{time: c.GetTime().AsTime().Local().Format(layout), caller: callerOf(c),
		tool: untrusted.Word(c.GetTool()), result: untrusted.Word(c.GetCode()), id: untrusted.Word(c.GetRequestId()),
		took: latency(float64(c.GetDuration().AsDuration()) / float64(time.Millisecond)), tint: green}
	switch {
	case call.Asked(c.GetReason()):
		cells.tint, cells.result = yellow, untrusted.Word(c.GetReason())
	case c.GetReason() != "":
		cells.tint, cells.result = red, untrusted.Word(c.GetReason())
	case c.GetOutcome() == "tool_error":
		cells.tint, cells.result = yellow, "tool error"
	case c.GetCode() != "OK":
		cells.tint = red
	}
	if c.GetCapability() != "" {
		cells.tool = untrusted.Word(c.GetCapability()) + "." + cells.tool
	}
	return cells
}

// callLayout has the widths of the columns of lines.
type callLayout struct {
	caller, tool, result, took int
	cut                        bool // for a terminal
	id                         bool
}

// layoutOf returns the layout of lines for a terminal of a width; 0: any.
func layoutOf(all []callCells, width int) callLayout {
	var l callLayout
	stamp, id := 0, 0
	for i := range all {
		c := &all[i]
		stamp, id = max(stamp, utf8.RuneCountInString(c.time)), max(id, utf8.RuneCountInString(c.id))
		l.caller, l.tool = max(l.caller, utf8.RuneCountInString(c.caller)), max(l.tool, utf8.RuneCountInString(c.tool))
		l.result, l.took = max(l.result, utf8.RuneCountInString(c.result)), max(l.took, utf8.RuneCountInString(c.took))
	}
	if l.cut = width > 0; !l.cut {
		l.id = true
		return l
	}
	l.result = min(l.result, maxResult)
	names := width - stamp - l.result - l.took - 4*columnGap // for the caller and the tool
	if l.id = names-id-columnGap >= 2*readable; l.id {       // else -o json has it
		names -= id + columnGap
	}
	if l.caller+l.tool > names {
		l.caller = min(l.caller, max(names/3, readable))
		l.tool = min(l.tool, max(names-l.caller, readable))
	}
	return l
}

// maxResult is the width of the column of results on a terminal.
const maxResult = 24

// followed returns the layout of lines that are printed one by one.
func followed(width int) callLayout {
	typical := callCells{time: time.TimeOnly, caller: strings.Repeat("x", readable),
		tool: strings.Repeat("x", 2*readable), result: strings.Repeat("x", readable+4), took: "12.5 ms"}
	if width > 0 {
		typical.id = strings.Repeat("x", len("0190f1c2-7a54-7c39-8d5c-0a4b1a2f3c4d"))
	}
	return layoutOf([]callCells{typical}, width)
}

// print writes a line.
func (l *callLayout) print(w io.Writer, c *callCells, color bool) {
	column := func(text string, width int) string {
		if l.cut && utf8.RuneCountInString(text) > width {
			text = untrusted.Beginning(text, max(width-1, 1))
		}
		return text + strings.Repeat(" ", max(width-utf8.RuneCountInString(text), 0)+columnGap)
	}
	result := column(c.result, l.result)
	if color {
		result = c.tint + result + plain
	}
	id := c.id
	if !l.id {
		id = ""
	}
	fmt.Fprintln(w, strings.TrimRight(c.time+"  "+column(c.caller, l.caller)+column(c.tool, l.tool)+result+
		column(c.took, l.took)+id, " "))
}

// callerOf names the caller, as precisely as the call does.
func callerOf(call *capgatepb.RecentCall) string {
	name := untrusted.Word(call.GetKey())
	switch {
	case call.GetUser() != "":
		name = untrusted.Word(call.GetUser())
	case call.GetAgent() != "":
		name = untrusted.Word(call.GetAgent())
	}
	if t := call.GetTenant(); t != "" && t != "default" {
		name = untrusted.Word(t) + "/" + name
	}
	return name
}
