package clientaddr

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
)

// The PROXY protocol, versions 1 and 2 (haproxy's proxy-protocol.txt, §2.1 and §2.2).
const (
	signature = "\r\n\r\n\x00\r\nQUIT\n"
	prefixLen = 16      // signature, version and command, family, length
	maxV2     = 4 << 10 // bytes behind the prefix that are read; enough for TLVs with a certificate
	maxV1     = 107     // bytes of the longest line, with its end
)

var (
	errMissing   = errors.New("it is missing")
	errTooLong   = errors.New("it is too long")
	errMalformed = errors.New("it is malformed")
)

// ReadProxy reads a PROXY header, and not a byte more. The address is invalid if the connection is the proxy's
// own, or the client has no IP address.
func ReadProxy(r io.Reader, p Protocol) (netip.AddrPort, error) {
	if p == V1 {
		return readV1(r)
	}
	return readV2(r)
}

func readV2(r io.Reader) (netip.AddrPort, error) {
	var prefix [prefixLen]byte
	if err := readAll(r, prefix[:len(signature)]); err != nil {
		return netip.AddrPort{}, err
	}
	if string(prefix[:len(signature)]) != signature {
		return netip.AddrPort{}, errMissing
	}
	if err := readAll(r, prefix[len(signature):]); err != nil {
		return netip.AddrPort{}, err
	}
	if prefix[12]>>4 != 2 {
		return netip.AddrPort{}, fmt.Errorf("version %d is not 2", prefix[12]>>4)
	}
	length := int(binary.BigEndian.Uint16(prefix[14:]))
	if length > maxV2 {
		return netip.AddrPort{}, errTooLong
	}
	body := make([]byte, length)
	if err := readAll(r, body); err != nil {
		return netip.AddrPort{}, err
	}
	return sourceV2(prefix[12]&0xf, prefix[13]>>4, body)
}

// sourceV2 returns the source address of a header. It ignores the TLVs behind the addresses.
func sourceV2(command, family byte, body []byte) (netip.AddrPort, error) {
	const local, proxy = 0, 1
	const unspec, inet, inet6, unix = 0, 1, 2, 3
	size, known := map[byte]int{unspec: 0, inet: 4, inet6: 16, unix: 108}[family]
	switch {
	case command == local:
		return netip.AddrPort{}, nil // a health check of the proxy itself; the rest must be ignored
	case command != proxy || !known:
		return netip.AddrPort{}, errMalformed
	case family == unspec || family == unix:
		if len(body) < 2*size {
			return netip.AddrPort{}, errShort
		}
		return netip.AddrPort{}, nil
	case len(body) < 2*size+4: // two addresses, two ports
		return netip.AddrPort{}, errShort
	}
	addr, _ := netip.AddrFromSlice(body[:size])
	return netip.AddrPortFrom(addr.Unmap(), binary.BigEndian.Uint16(body[2*size:])), nil
}

// readV1 reads byte by byte, because the bytes behind the line belong to the connection's protocol. The line is
// short.
func readV1(r io.Reader) (netip.AddrPort, error) {
	var buf [maxV1]byte
	for n := 0; n < len(buf); n++ {
		if err := readAll(r, buf[n:n+1]); err != nil {
			return netip.AddrPort{}, err
		}
		if line := buf[:n+1]; bytes.HasSuffix(line, []byte("\r\n")) {
			return parseV1(string(line[:n-1]))
		}
		if begin := "PROXY "; n < len(begin) && buf[n] != begin[n] {
			return netip.AddrPort{}, errMissing
		}
	}
	return netip.AddrPort{}, errTooLong
}

func parseV1(line string) (netip.AddrPort, error) {
	words := strings.Split(line, " ")
	if len(words) >= 2 && words[1] == "UNKNOWN" {
		return netip.AddrPort{}, nil
	}
	if len(words) != 6 || words[1] != "TCP4" && words[1] != "TCP6" {
		return netip.AddrPort{}, errMalformed
	}
	var addrs [2]netip.Addr
	var ports [2]uint64
	for i := range addrs {
		var err, bad error
		addrs[i], err = netip.ParseAddr(words[2+i])
		ports[i], bad = strconv.ParseUint(words[4+i], 10, 16)
		if err != nil || bad != nil || addrs[i].Zone() != "" || addrs[i].Is4() != (words[1] == "TCP4") {
			return netip.AddrPort{}, errMalformed
		}
	}
	return netip.AddrPortFrom(addrs[0].Unmap(), uint16(ports[0])), nil
}

func readAll(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errShort
	}
	return err
}
