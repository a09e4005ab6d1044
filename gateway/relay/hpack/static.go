package hpack

// pair is a field without metadata.
type pair struct{ name, value string }

// staticLen is the number of entries in the static table; index 0 is not used.
const staticLen = 61

// staticTable is RFC 7541 Appendix A.
var staticTable = [staticLen + 1]pair{
	1:  {":authority", ""},
	2:  {":method", "GET"},
	3:  {":method", "POST"},
	4:  {":path", "/"},
	5:  {":path", "/index.html"},
	6:  {":scheme", "http"},
	7:  {":scheme", "https"},
	8:  {":status", "200"},
	9:  {":status", "204"},
	10: {":status", "206"},
	11: {":status", "304"},
	12: {":status", "400"},
	13: {":status", "404"},
	14: {":status", "500"},
	15: {"accept-charset", ""},
	16: {"accept-encoding", "gzip, deflate"},
	17: {"accept-language", ""},
	18: {"accept-ranges", ""},
	19: {"accept", ""},
	20: {"access-control-allow-origin", ""},
	21: {"age", ""},
	22: {"allow", ""},
	23: {"authorization", ""},
	24: {"cache-control", ""},
	25: {"content-disposition", ""},
	26: {"content-encoding", ""},
	27: {"content-language", ""},
	28: {"content-length", ""},
	29: {"content-location", ""},
	30: {"content-range", ""},
	31: {"content-type", ""},
	32: {"cookie", ""},
	33: {"date", ""},
	34: {"etag", ""},
	35: {"expect", ""},
	36: {"expires", ""},
	37: {"from", ""},
	38: {"host", ""},
	39: {"if-match", ""},
	40: {"if-modified-since", ""},
	41: {"if-none-match", ""},
	42: {"if-range", ""},
	43: {"if-unmodified-since", ""},
	44: {"last-modified", ""},
	45: {"link", ""},
	46: {"location", ""},
	47: {"max-forwards", ""},
	48: {"proxy-authenticate", ""},
	49: {"proxy-authorization", ""},
	50: {"range", ""},
	51: {"referer", ""},
	52: {"refresh", ""},
	53: {"retry-after", ""},
	54: {"server", ""},
	55: {"set-cookie", ""},
	56: {"strict-transport-security", ""},
	57: {"transfer-encoding", ""},
	58: {"user-agent", ""},
	59: {"vary", ""},
	60: {"via", ""},
	61: {"www-authenticate", ""},
}

// staticNames maps a name to its first static entry: an open-addressed table of indices, derived from staticTable. It
// is never changed.
var staticNames = indexStaticNames()

func indexStaticNames() (t [256]uint8) {
	for i := 1; i <= staticLen; i++ {
		if staticTable[i].name == staticTable[i-1].name {
			continue
		}
		h := hashName(staticTable[i].name)
		for t[h] != 0 {
			h++
		}
		t[h] = uint8(i)
	}
	return t
}

// hashName returns the hash of a name, which must not be empty.
func hashName(name string) uint8 {
	return uint8(len(name))*31 + name[0]*7 + name[len(name)/2]*3 + name[len(name)-1]
}

// staticName returns the index of the first static entry with a name, or 0.
func staticName(name string) uint8 {
	if name == "" {
		return 0
	}
	for h := hashName(name); ; h++ {
		i := staticNames[h]
		if i == 0 || staticTable[i].name == name {
			return i
		}
	}
}

// staticField returns the index of the static entry with this name and value, or 0. first is staticName(name).
func staticField(first uint8, name, value string) uint8 {
	if first == 0 {
		return 0
	}
	for i := first; i <= staticLen && staticTable[i].name == name; i++ {
		if staticTable[i].value == value {
			return i
		}
	}
	return 0
}
