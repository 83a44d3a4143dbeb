package goldentest_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// naive replays a log's JSON commits the simplest way, to have something to
// compare State with. It shares no code with package tables: its own decoding,
// its own reading of paths, no checkpoints, no checks.
type naive struct {
	Version            int64
	Protocol, MetaData map[string]any
	Txns               map[string]int64
	Domains            map[string]string
	Files              map[naiveFile]map[string]any
}

type naiveFile struct{ Path, DV string }

var errNoCommit = errors.New("no such commit")

// naiveReplay replays the commits from 0 to last; last below 0 means all in a row.
func naiveReplay(dir string, last int64) (*naive, error) {
	n := &naive{Version: -1, Txns: map[string]int64{}, Domains: map[string]string{}, Files: map[naiveFile]map[string]any{}}
	for v := int64(0); last < 0 || v <= last; v++ {
		data, err := os.ReadFile(filepath.Join(dir, "_delta_log", fmt.Sprintf("%020d.json", v)))
		if errors.Is(err, os.ErrNotExist) && last < 0 && v > 0 {
			break
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%w: %d", errNoCommit, v)
		}
		if err != nil {
			return nil, err
		}
		if err := n.commit(dir, data); err != nil {
			return nil, fmt.Errorf("commit %d: %w", v, err)
		}
		n.Version = v
	}
	return n, nil
}

func (n *naive) commit(dir string, data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	for d.More() {
		var line map[string]map[string]any
		if err := d.Decode(&line); err != nil {
			return err
		}
		for action, body := range line {
			n.action(dir, action, withoutNulls(body))
		}
	}
	return nil
}

func (n *naive) action(dir, action string, a map[string]any) {
	switch action {
	case "protocol":
		n.Protocol = a
	case "metaData":
		n.MetaData = a
	case "txn":
		n.Txns[a["appId"].(string)] = whole(a["version"])
	case "domainMetadata":
		name := a["domain"].(string)
		delete(n.Domains, name)
		if a["removed"] != true {
			n.Domains[name] = a["configuration"].(string)
		}
	case "add":
		n.Files[keyOf(dir, a)] = a
	case "remove":
		delete(n.Files, keyOf(dir, a))
	}
}

func keyOf(dir string, a map[string]any) naiveFile {
	k := naiveFile{Path: plainPath(dir, a["path"].(string))}
	if dv, ok := a["deletionVector"].(map[string]any); ok {
		k.DV = dv["storageType"].(string) + dv["pathOrInlineDv"].(string)
		if offset, ok := dv["offset"]; ok {
			k.DV += "@" + offset.(json.Number).String()
		}
	}
	return k
}

// plainPath decodes a path once and makes it relative to the table if it lies in it.
func plainPath(dir, logged string) string {
	var b strings.Builder
	for i := 0; i < len(logged); i++ {
		var c byte
		if logged[i] == '%' && i+2 < len(logged) {
			if n, err := fmt.Sscanf(logged[i+1:i+3], "%02x", &c); n == 1 && err == nil {
				b.WriteByte(c)
				i += 2
				continue
			}
		}
		b.WriteByte(logged[i])
	}
	path := b.String()
	if rest, ok := strings.CutPrefix(path, "file:"); ok {
		path = "/" + strings.TrimLeft(rest, "/")
	}
	if rest, ok := strings.CutPrefix(path, dir+"/"); ok {
		return rest
	}
	if strings.HasPrefix(path, "/") {
		return "file://" + path
	}
	return path
}

func (n *naive) paths() []string {
	var out []string
	for f := range n.Files {
		out = append(out, f.Path)
	}
	slices.Sort(out)
	return out
}

func (n *naive) sortedFiles() []naiveFile {
	var out []naiveFile
	for f := range n.Files {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b naiveFile) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.DV, b.DV)) })
	return out
}

func (n *naive) totalSize() (sum int64) {
	for _, a := range n.Files {
		sum += whole(a["size"])
	}
	return sum
}

func whole(v any) int64 {
	if v == nil {
		return 0
	}
	i, err := v.(json.Number).Int64()
	if err != nil {
		panic(err) // a golden table has no such number
	}
	return i
}

// withoutNulls drops null members of the object itself: null means absent.
func withoutNulls(m map[string]any) map[string]any {
	for k, v := range m {
		if v == nil {
			delete(m, k)
		}
	}
	return m
}

// object decodes one JSON object with exact numbers.
func object(raw []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var m map[string]any
	err := d.Decode(&m)
	return withoutNulls(m), err
}
