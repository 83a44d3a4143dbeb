package tables

import (
	"bytes"
	"encoding/json"
	"strings"
)

// IsPathHash reports whether a conflict names its path by a hash.
func IsPathHash(path string) bool { return strings.HasPrefix(path, hashPrefix) }

// PathBehind is the canonical path, among those that action lines of a table add or remove,
// that a conflict names by its hash. The lines were validated when they were staged.
func PathBehind(tableURI string, lines []byte, hash string) (string, bool) {
	at := placeOf(tableURI)
	for line := range bytes.Lines(lines) {
		var a struct {
			Add, Remove *struct {
				Path string `json:"path"`
			}
		}
		if json.Unmarshal(line, &a) != nil {
			continue
		}
		file := a.Add
		if file == nil {
			file = a.Remove
		}
		if file == nil {
			continue
		}
		if path, err := at.canonical(file.Path); err == nil && HashPath(path).String() == hash {
			return path, true
		}
	}
	return "", false
}
