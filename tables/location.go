package tables

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
)

// PathHash is the first 8 bytes of SHA-256 of a canonical path, big-endian.
type PathHash uint64

// HashPath hashes a canonical path.
func HashPath(canonical string) PathHash { return PathHash(shortHash(canonical)) }

// String is how rules write a path that they know by its hash alone; see
// Actions.Explain.
func (h PathHash) String() string { return fmt.Sprintf("%s%016x", hashPrefix, uint64(h)) }

const hashPrefix = "sha256:"

// DVHash is the same of a deletion vector's unique id; 0 means that there is none.
type DVHash uint64

func hashDV(id string) DVHash {
	if id == "" {
		return 0
	}
	return DVHash(max(shortHash(id), 1))
}

func shortHash(s string) uint64 {
	// A buffer on the stack keeps short names, that is nearly all, off the heap.
	var buf [256]byte
	sum := sha256.Sum256(append(buf[:0], s...))
	return binary.BigEndian.Uint64(sum[:8])
}

// CanonicalURI turns a table's place as a user writes it into the one form that
// the catalog stores (R21): with scheme, decoded once, without trailing or double
// slashes and dot segments, s3a and s3n as s3, /x and file:/x as file:///x.
// Characters that a URI can hold only escaped (% ? #) stay escaped, so that the
// result may go through CanonicalURI again. A path without scheme is a path and
// not a URI: it is not decoded. Symbolic links are the caller's to resolve before.
func CanonicalURI(raw string) (string, error) {
	refuse := func(reason string) error {
		return &InputError{
			Field: "uri", Value: cut(WithoutPassword(raw)), Reason: reason,
			Remedy: "give an absolute path, or a URI such as s3://bucket/path or file:///path",
		}
	}
	scheme, authority, path := splitURI(raw)
	switch {
	case credentials.MatchString("//" + authority):
		return "", refuse("names a user and a password, which are not part of a table's place")
	case scheme == "" && !strings.HasPrefix(raw, "/"):
		return "", refuse("is not absolute")
	case scheme == "":
		scheme = "file"
	default:
		decoded, err := unescape(path)
		if err != nil {
			return "", refuse(err.Error())
		}
		path = decoded
	}
	scheme, authority = foldScheme(scheme), strings.ToLower(authority)
	switch {
	case scheme == "file" && authority == "localhost":
		authority = ""
	case scheme == "file" && authority != "":
		return "", refuse("names another machine")
	case scheme != "file" && authority == "":
		return "", refuse("names no bucket or host")
	case hasControl(path):
		return "", refuse("has a control character")
	}
	clean, up := cleanSegments(path)
	if why := tooLong(scheme, clean); why != "" {
		return "", refuse(why)
	}
	if up {
		return "", refuse("leads above its root")
	}
	if clean == "" && scheme == "file" {
		return "", refuse("is the root of the file system")
	}
	return strings.TrimSuffix(scheme+"://"+authority+"/"+escapeMarks(clean), "/"), nil
}

// credentials fits a user and a password in a URI, which no message repeats. Azure's
// container@account has no colon.
var credentials = regexp.MustCompile(`//[^/@]*:[^/]*@`)

// WithoutPassword is what was given for a table, or its place, as a message may show it.
func WithoutPassword(ref string) string {
	if !strings.Contains(ref, "@") {
		return ref
	}
	return credentials.ReplaceAllString(ref, "//…@")
}

// What file systems bound: a name, and a whole path; and what S3, GCS and Azure do: a key.
// In paths and keys the names that a table's log has below its root need room.
const (
	maxSegment = 255
	maxPath    = 4096 - 512
	maxKey     = 1024 - 128
)

// tooLong is why no table can be at a path; empty if one can. A store that answers
// ENAMETOOLONG, or KeyTooLongError, does so for ever.
func tooLong(scheme, path string) string {
	most := maxKey
	if scheme == "file" {
		most = maxPath
	}
	if len(path) > most {
		return fmt.Sprintf("has %d bytes, more than the %d that leave room for the names below it", len(path), most)
	}
	if scheme != "file" {
		return ""
	}
	for segment := range strings.SplitSeq(path, "/") {
		if len(segment) > maxSegment {
			return fmt.Sprintf("has a name of %d bytes in it, and file systems take %d", len(segment), maxSegment)
		}
	}
	return ""
}

// place is a canonical table URI, taken apart and decoded.
type place struct {
	scheme, authority string
	path              string // without slashes at its ends
}

func placeOf(canonicalURI string) place {
	scheme, authority, path := splitURI(canonicalURI)
	if decoded, err := unescape(path); err == nil {
		path = decoded
	}
	return place{foldScheme(scheme), authority, strings.Trim(path, "/")}
}

// CanonicalPath turns the path of a file action into the one form that names the
// file: relative to the table's root and decoded once where it lies below it, else
// an absolute decoded URI. A path without scheme that begins with a slash is
// absolute in the table's own file system. tableURI is canonical.
func CanonicalPath(tableURI, logPath string) (string, error) {
	return placeOf(tableURI).canonical(logPath)
}

// isOutside tells from a canonical path that the file is not below the table's root.
func isOutside(canonical string) bool { return strings.Contains(canonical, "://") }

func (t place) canonical(logPath string) (string, error) {
	if isPlain(logPath) {
		return logPath, nil
	}
	scheme, authority, path := splitURI(logPath)
	path, err := unescape(path)
	if err != nil {
		return "", err
	}
	relative := scheme == "" && !strings.HasPrefix(path, "/")
	switch {
	case relative:
		scheme, authority, path = t.scheme, t.authority, t.path+"/"+path
	case scheme == "":
		scheme, authority = t.scheme, t.authority
	default:
		scheme, authority = foldScheme(scheme), strings.ToLower(authority)
		if scheme == "file" && authority == "localhost" {
			authority = ""
		}
	}
	clean, up := cleanSegments(path)
	if up {
		return "", fmt.Errorf("path leads above the root of the store")
	}
	if scheme == t.scheme && authority == t.authority {
		below, ok := clean, t.path == ""
		if !ok {
			below, ok = strings.CutPrefix(clean, t.path+"/")
		}
		if ok && below != "" {
			return below, nil
		}
	}
	return scheme + "://" + authority + "/" + clean, nil
}

// isPlain reports that a path is relative and its own canonical form, which is so
// for nearly all that engines write.
func isPlain(p string) bool {
	segment := 0 // bytes of the present segment
	dots := true // and whether all of them are dots
	for i := 0; i < len(p); i++ {
		switch c := p[i]; c {
		case '%', ':':
			return false
		case '/':
			if segment == 0 || dots {
				return false
			}
			segment, dots = 0, true
		default:
			segment++
			dots = dots && c == '.'
		}
	}
	return segment > 0 && !dots
}

// splitURI parts a URI by RFC 2396. Without a scheme everything is path, so that
// "//x" is the path "/x" and no authority.
func splitURI(s string) (scheme, authority, path string) {
	n := schemeLen(s)
	if n == 0 {
		return "", "", s
	}
	scheme, path = s[:n], s[n+1:]
	if rest, ok := strings.CutPrefix(path, "//"); ok {
		authority, path, _ = strings.Cut(rest, "/")
		path = "/" + path
	}
	return scheme, authority, path
}

// schemeLen is the length of the scheme in front of a colon, 0 if there is none.
func schemeLen(s string) int {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == ':':
			return i
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return 0
		}
	}
	return 0
}

func foldScheme(s string) string {
	s = strings.ToLower(s)
	if s == "s3a" || s == "s3n" {
		return "s3"
	}
	return s
}

// unescape decodes %XX once. A plus is a plus: this is a path, not a query.
func unescape(s string) (string, error) {
	if strings.IndexByte(s, '%') < 0 {
		return s, nil
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out = append(out, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", fmt.Errorf("path breaks off in an escape")
		}
		hi, lo := unhex(s[i+1]), unhex(s[i+2])
		if hi < 0 || lo < 0 {
			return "", fmt.Errorf("path has a percent sign that begins no escape")
		}
		out = append(out, byte(hi<<4|lo))
		i += 2
	}
	return string(out), nil
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

var marks = strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23")

func escapeMarks(s string) string { return marks.Replace(s) }

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f })
}

// cleanSegments joins the segments of a path with single slashes, without empty
// ones and dots. up: a ".." led above the beginning.
func cleanSegments(path string) (clean string, up bool) {
	var out []string
	for segment := range strings.SplitSeq(path, "/") {
		switch segment {
		case "", ".":
		case "..":
			if len(out) == 0 {
				return "", true
			}
			out = out[:len(out)-1]
		default:
			out = append(out, segment)
		}
	}
	return strings.Join(out, "/"), false
}
