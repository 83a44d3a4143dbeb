package tables

import (
	"math"
	"unicode/utf16"
	"unicode/utf8"
)

// isNull tells a raw value that counts as absent.
func isNull(raw []byte) bool { return len(raw) == 4 && raw[0] == 'n' }

// stringOf returns the text of a raw value. It shares the value's memory if there
// is no escape in it.
func stringOf(raw []byte) ([]byte, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, false
	}
	inner := raw[1 : len(raw)-1]
	for _, ch := range inner {
		if ch == '\\' {
			return unquote(nil, inner), true
		}
	}
	return inner, true
}

// intOf returns a raw value as a 64-bit integer. 1.0 and 1e3 are not integers here.
func intOf(raw []byte) (int64, bool) {
	digits, negative := raw, false
	if len(raw) > 0 && raw[0] == '-' {
		digits, negative = raw[1:], true
	}
	if len(digits) == 0 || len(digits) > 19 {
		return 0, false
	}
	var n uint64
	for _, ch := range digits {
		if ch < '0' || ch > '9' {
			return 0, false
		}
		n = n*10 + uint64(ch-'0')
	}
	switch {
	case negative && n <= math.MaxInt64+1:
		return -int64(n), true
	case !negative && n <= math.MaxInt64:
		return int64(n), true
	}
	return 0, false
}

func boolOf(raw []byte) (value, ok bool) {
	switch string(raw) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

// unquote appends the text of a checked string with escapes in it.
func unquote(dst, raw []byte) []byte {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			dst = append(dst, raw[i])
			continue
		}
		i++
		switch raw[i] {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := hex4(raw[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				if !pairAt(raw, i, r) {
					dst = appendHalf(dst, r)
					continue
				}
				r = utf16.DecodeRune(r, hex4(raw[i+3:]))
				i += 6
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, raw[i])
		}
	}
	return dst
}

func hex4(b []byte) rune {
	var r rune
	for _, h := range b[:4] {
		r = r<<4 | rune(unhex(h))
	}
	return r
}

// appendQuoted appends a text as a JSON string, escaping no more than JSON asks
// for: < > & stay as they are.
func appendQuoted(dst []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
