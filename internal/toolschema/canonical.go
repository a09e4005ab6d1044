package toolschema

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/gowebpki/jcs"
)

// Canonical returns the canonical form of JSON, by which Hash is independent of formatting.
func Canonical(text []byte) ([]byte, error) { return canonicalize(text) }

// canonicalize returns the canonical form of JSON (RFC 8785). RFC 8785 rounds numbers to 64-bit floating point, so that
// different integers above 2^53 would become equal. Numbers that rounding would change keep their digits instead.
func canonicalize(text []byte) ([]byte, error) {
	// Each such number is replaced by a string that no document can know, and restored afterwards.
	mark := rand.Text()
	var marked bytes.Buffer
	var exact []string
	from := 0
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			break // at the end; Transform reports invalid JSON
		}
		number, is := token.(json.Number)
		if !is {
			continue
		}
		if digits, rounded := exactly(string(number)); rounded {
			end := int(d.InputOffset())
			marked.Write(text[from : end-len(number)])
			marked.WriteString(`"` + mark + strconv.Itoa(len(exact)) + `"`)
			exact, from = append(exact, `"`+mark+strconv.Itoa(len(exact))+`"`, digits), end
		}
	}
	if exact == nil {
		return jcs.Transform(text)
	}
	marked.Write(text[from:])
	canonical, err := jcs.Transform(marked.Bytes())
	if err != nil {
		return nil, err
	}
	return []byte(strings.NewReplacer(exact...).Replace(string(canonical))), nil
}

// exactly returns the one spelling of a number that is not rounded, and whether 64-bit floating point rounds it.
func exactly(number string) (digits string, rounded bool) {
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return "", false // out of range, which Transform rejects
	}
	digits, exponent := significand(number)
	near, nearExponent := significand(strconv.FormatFloat(value, 'e', -1, 64))
	if digits == near && exponent == nearExponent {
		return "", false
	}
	const most = 40 // digits of an integer without an exponent
	if exponent >= 0 && exponent <= most && len(digits)+exponent <= most {
		return digits + strings.Repeat("0", exponent), true
	}
	return digits + "e" + strconv.Itoa(exponent), true
}

// significand returns a number's digits, with its sign and without zeros at either end, and the exponent of their last
// one.
func significand(number string) (digits string, exponent int) {
	mantissa, power, _ := strings.Cut(strings.ToLower(number), "e")
	exponent, _ = strconv.Atoi(power) // beyond int, the number is 0 or out of range
	sign := ""
	if mantissa[0] == '-' {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent -= len(fraction)
	digits = strings.TrimLeft(whole+fraction, "0")
	short := strings.TrimRight(digits, "0")
	if short == "" {
		return "0", 0
	}
	return sign + short, exponent + len(digits) - len(short)
}
