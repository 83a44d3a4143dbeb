package objectstore

import (
	"fmt"
	"strings"
)

// The names of objects. Each byte of a key becomes itself or an escape, of which none
// begins another and which sort as the bytes do. So a name has another one as its
// prefix exactly if the key has the other key, and names are in the order of keys.
//
//   - 0-9 A-Z a-z       themselves
//     .                   .-
//     /                   ._
//     below "-"           ! and two digits in base 16
//     : ; < = > ? @       = and two digits
//     [ \ ] ^ _ `         _ and two digits
//     { and above         ~ and two digits
func escape(key string) string {
	var b strings.Builder
	for i := range len(key) {
		switch c := key[i]; {
		case c < '-':
			fmt.Fprintf(&b, "!%02X", c)
		case c == '.':
			b.WriteString(".-")
		case c == '/':
			b.WriteString("._")
		case c == '-', '0' <= c && c <= '9', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z':
			b.WriteByte(c)
		case c <= '@':
			fmt.Fprintf(&b, "=%02X", c)
		case c <= '`':
			fmt.Fprintf(&b, "_%02X", c)
		default:
			fmt.Fprintf(&b, "~%02X", c)
		}
	}
	return b.String()
}

// unescape is the key of a name. What escape does not write is no name.
func unescape(name string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		switch c := name[i]; c {
		case '.':
			if i++; i == len(name) || name[i] != '-' && name[i] != '_' {
				return "", errForeign(name)
			}
			b.WriteByte("./"[strings.IndexByte("-_", name[i])])
		case '!', '=', '_', '~':
			var n byte
			if _, err := fmt.Sscanf(name[i+1:min(i+3, len(name))], "%02X", &n); err != nil {
				return "", errForeign(name)
			}
			b.WriteByte(n)
			i += 2
		default:
			b.WriteByte(c)
		}
	}
	if key := b.String(); escape(key) == name {
		return key, nil
	}
	return "", errForeign(name)
}

func errForeign(name string) error {
	return fmt.Errorf("object %q is not txcoord's; give the journal a prefix of its own", name)
}
