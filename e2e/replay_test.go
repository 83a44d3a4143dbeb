package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// replayed is a table's state by the simplest way to replay its JSON commits. It
// shares no code with the writer, and looks at no checkpoint.
type replayed struct {
	version            int64
	protocol, metaData map[string]any
	txns               map[string]int64
	domains            map[string]string
	files              map[string]int64 // sizes by path and deletion vector
}

// replay reads commits from 0 on. What is not a log gives version -1.
func replay(dir string) *replayed {
	s := &replayed{version: -1, txns: map[string]int64{}, domains: map[string]string{}, files: map[string]int64{}}
	for {
		raw, err := os.ReadFile(filepath.Join(dir, "_delta_log", fmt.Sprintf("%020d.json", s.version+1)))
		if err != nil {
			return s
		}
		for line := range bytes.Lines(raw) {
			for action, body := range object(line) {
				if a, ok := body.(map[string]any); ok {
					s.apply(dir, action, a)
				}
			}
		}
		s.version++
	}
}

func (s *replayed) apply(dir, action string, a map[string]any) {
	switch action {
	case "protocol":
		s.protocol = a
	case "metaData":
		s.metaData = a
	case "txn":
		s.txns[a["appId"].(string)] = whole(a["version"])
	case "domainMetadata":
		s.domains[a["domain"].(string)], _ = a["configuration"].(string)
		if a["removed"] == true {
			delete(s.domains, a["domain"].(string))
		}
	case "add":
		s.files[fileOf(dir, a)] = whole(a["size"])
	case "remove":
		delete(s.files, fileOf(dir, a))
	}
}

// fileOf names a file and its deletion vector: two spellings of one path are one.
func fileOf(dir string, a map[string]any) string {
	path := a["path"].(string)
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	if rest, ok := strings.CutPrefix(path, "file:"); ok {
		path = "/" + strings.TrimLeft(rest, "/")
	}
	path = strings.TrimPrefix(path, dir+"/")
	if dv, ok := a["deletionVector"].(map[string]any); ok {
		path += fmt.Sprint(" ", dv["storageType"], dv["pathOrInlineDv"], dv["offset"])
	}
	return path
}

// and is the state with one commit of ours on top: a file, and our marker, whose
// first change is number 1.
func (s *replayed) and(path string, size int64, app string) *replayed {
	n := *s
	n.version++
	n.txns, n.files = maps.Clone(s.txns), maps.Clone(s.files)
	n.txns[app], n.files[path] = 1, size
	return &n
}

// nullPartition are partition values of a file that has none, by the names that
// they have in the log.
func (s *replayed) nullPartition() string {
	var schema struct {
		Fields []struct {
			Name     string
			Metadata map[string]any
		}
	}
	text, _ := s.metaData["schemaString"].(string)
	_ = json.Unmarshal([]byte(text), &schema)
	config, _ := s.metaData["configuration"].(map[string]any)
	mode, _ := config["delta.columnMapping.mode"].(string)
	values := map[string]any{}
	columns, _ := s.metaData["partitionColumns"].([]any)
	for _, f := range schema.Fields {
		if !slices.Contains(columns, any(f.Name)) {
			continue
		}
		if physical, ok := f.Metadata["delta.columnMapping.physicalName"].(string); ok && mode != "" && mode != "none" {
			f.Name = physical
		}
		values[f.Name] = nil
	}
	b, _ := json.Marshal(values)
	return string(b)
}

func sizes(files map[string]int64) (sum int64) {
	for _, n := range files {
		sum += n
	}
	return sum
}

// object decodes a JSON object with exact numbers; null members are left out, for
// null means absent.
func object(raw []byte) map[string]any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var m map[string]any
	_ = d.Decode(&m)
	withoutNulls(m)
	return m
}

func withoutNulls(m map[string]any) {
	maps.DeleteFunc(m, func(_ string, v any) bool { return v == nil })
	for name, v := range m {
		if inner, ok := v.(map[string]any); ok && (name == "protocol" || name == "metaData") {
			withoutNulls(inner)
		}
	}
}

func whole(v any) int64 {
	n, _ := v.(json.Number)
	i, _ := n.Int64()
	return i
}
