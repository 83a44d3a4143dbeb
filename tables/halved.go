package tables

import (
	"unicode/utf16"
	"unicode/utf8"
)

// JSON can name half of a surrogate pair (\ud800), which is no character. serde refuses
// the text, Jackson keeps the half, and encoding/json writes U+FFFD, so that two paths
// become one. Clients may not stage such a text at all; of what others wrote the half is
// kept, as Spark keeps it, in bytes that are no UTF-8.

// halved reports whether a checked string, as it stands between its quotes, has half a
// surrogate pair in it.
func halved(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if raw[i] != 'u' {
			continue
		}
		r := hex4(raw[i+1:])
		i += 4
		if !utf16.IsSurrogate(r) {
			continue
		}
		if !pairAt(raw, i, r) {
			return true
		}
		i += 6
	}
	return false
}

// pairAt reports whether the escape behind i makes a pair with r.
func pairAt(raw []byte, i int, r rune) bool {
	return i+6 < len(raw) && raw[i+1] == '\\' && raw[i+2] == 'u' && utf16.DecodeRune(r, hex4(raw[i+3:])) != utf8.RuneError
}

func errHalved(raw []byte) error {
	return &fieldError{
		value: cut(raw), reason: "has half a surrogate pair in it, which is no character",
		remedy: "write the whole pair, or the character itself in UTF-8",
	}
}

// appendHalf writes half a pair as if it were a character (WTF-8): two of them stay two.
func appendHalf(dst []byte, r rune) []byte {
	return append(dst, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0xBF, 0x80|byte(r)&0xBF)
}
