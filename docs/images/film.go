package main

import (
	"fmt"
	"html"
	"strings"
)

// window is the size of the two terminals, in characters and pixels.
type window struct {
	columns            int
	agent, approver    int // lines
	size               float64
	charWidth, lineGap float64
}

var (
	wide   = window{columns: 92, agent: 6, approver: 25, size: 15, charWidth: 9, lineGap: 20}
	narrow = window{columns: 50, agent: 10, approver: 28, size: 15, charWidth: 9, lineGap: 20}
)

const (
	margin, bar = 14, 34 // around a terminal's text, and of its title
	typing      = 0.03   // seconds for a character
	pause       = 1.1    // seconds after a command and after its output
	rest        = 5      // seconds at the end
)

// line is a line of a terminal, which appears at a time.
type line struct {
	text    string
	at      float64
	command bool
}

// take is a recording as it appears in the two terminals.
type take struct {
	agent, approver       []line
	asked, answered, ends float64
}

// stage gives each line its time.
func (w window) stage(scenes []scene) take {
	var t take
	now := 0.6
	for _, s := range scenes {
		lines := &t.approver
		if s.agent {
			lines = &t.agent
		}
		if s.command != "" {
			for _, text := range w.wrap("$ "+s.command, true) {
				*lines = append(*lines, line{text, now, true})
				now += typing * float64(len(text))
			}
			now += pause / 2
		}
		if s.waits {
			t.asked = now
		}
		if s.agent && s.output != "" {
			t.answered = now
		}
		if s.output == "" {
			continue
		}
		for _, text := range w.wrap(s.output, s.agent) {
			*lines = append(*lines, line{text, now, false})
		}
		now += pause
	}
	t.ends = now + rest
	return t
}

// wrap breaks lines at the edge of the window, or cuts them off there.
func (w window) wrap(text string, fold bool) (lines []string) {
	for l := range strings.SplitSeq(text, "\n") {
		r := []rune(l)
		for fold && len(r) > w.columns {
			lines, r = append(lines, string(r[:w.columns])), r[w.columns:]
		}
		if len(r) > w.columns {
			r = append(r[:w.columns-1], '…')
		}
		lines = append(lines, string(r))
	}
	return lines
}

// film returns the recording as an animated SVG, which begins when the first command has been typed. Where a reader
// prefers no motion, all of it is shown at once.
func (w window) film(t theme, scenes []scene) string {
	s := w.stage(scenes)
	width := float64(w.columns)*w.charWidth + 2*margin + 2
	upper, lower := w.height(w.agent), w.height(w.approver)
	var b, css strings.Builder
	f := &frames{css: &css, total: s.ends}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%[1]g" height="%[2]g" `+
		`font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="%g">`+"\n",
		width, upper+lower+margin, w.size)
	body := w.terminal(f, "agent", 0, width, w.agent, s.agent) + w.status(f, s, width) +
		w.terminal(f, "approver", upper+margin, width, w.approver, s.approver)
	fmt.Fprintf(&b, "<style>\n%s.gone{opacity:0}\n@media "+
		"(prefers-reduced-motion:reduce){*{animation:none!important}}\n</style>\n%s</svg>\n", css.String(), body)
	return t.paint(b.String())
}

func (w window) height(lines int) float64 { return bar + 2*margin + float64(lines)*w.lineGap }

// terminal draws one of the two windows.
func (w window) terminal(f *frames, title string, top, width float64, lines int, text []line) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<g transform="translate(0 %g)"><rect x=".5" y=".5" width="%g" height="%g" rx="8" fill="@back" stroke="@line"/>`+
		`<path d="M.5 8.5a8 8 0 0 1 8-8h%g a8 8 0 0 1 8 8v%d H.5z" fill="@pane" stroke="@line"/>`+
		`<text x="%d" y="22" fill="@dim">%s</text>`+"\n", top, width-1, w.height(lines)-1, width-17, bar-8, margin,
		title)
	for i, l := range text[max(0, len(text)-lines):] {
		y := bar + margin + float64(i+1)*w.lineGap - 6
		ink := "@dim"
		if l.command {
			ink = "@ink"
		}
		if l.text == "" {
			continue
		}
		n := float64(len([]rune(l.text)))
		fmt.Fprintf(&b, `<text x="%d" y="%g" fill="%s" class="%s" textLength="%g" xml:space="preserve">%s</text>`,
			margin, y, ink, f.appear(l.at), n*w.charWidth, html.EscapeString(l.text))
		if l.command {
			fmt.Fprintf(&b, `<rect class="gone %s" x="%d" y="%g" width="%g" height="%g" fill="@back"/>`,
				f.uncover(l.at, n, w.charWidth), margin, y-w.lineGap+6, n*w.charWidth+1, w.lineGap)
		}
		b.WriteString("\n")
	}
	return b.String() + "</g>\n"
}

// status says in the agent's title whether its call waits.
func (w window) status(f *frames, s take, width float64) string {
	return fmt.Sprintf(`<g text-anchor="end"><text class="gone %s" x="%g" y="22" fill="@wait">● the call waits</text>`+
		`<text class="%s" x="%[2]g" y="22" fill="@good">● the call was answered</text></g>`+"\n",
		f.between(s.asked, s.answered), width-margin, f.appear(s.answered))
}

// frames makes the animations. Each has the length of the recording and repeats.
type frames struct {
	css   *strings.Builder
	total float64
	count int
}

func (f *frames) rule(timing, keys string) string {
	f.count++
	fmt.Fprintf(f.css, ".k%d{animation:k%[1]d %.2fs %s -2.2s infinite}@keyframes k%[1]d{%[4]s}\n", f.count, f.total,
		timing, keys)
	return fmt.Sprintf("k%d", f.count)
}

func (f *frames) percent(at float64) string { return fmt.Sprintf("%.2f%%", 100*at/f.total) }

func (f *frames) appear(at float64) string { return f.between(at, f.total) }

func (f *frames) between(from, to float64) string {
	return f.rule("step-end", "0%{opacity:0}"+f.percent(from)+"{opacity:1}"+f.percent(to)+"{opacity:0}")
}

// uncover moves a cover off a line, character by character.
func (f *frames) uncover(at, characters, width float64) string {
	name := f.rule("linear", fmt.Sprintf(
		"0%%,%s{transform:translateX(0);opacity:1;animation-timing-function:steps(%.0f)}"+
			"%s{transform:translateX(%gpx);opacity:1}%.2f%%,100%%{opacity:0}", f.percent(at), characters,
		f.percent(at+typing*characters), characters*width, 100*(at+typing*characters)/f.total+.01))
	return name
}
