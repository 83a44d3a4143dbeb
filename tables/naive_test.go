package tables_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// naiveFile is a live file.
type naiveFile struct {
	dv            string
	base, version *int64
	rows          int64
}

// naiveTable replays with encoding/json, and refuses what no commit may do.
type naiveTable struct {
	files    map[string]naiveFile
	txns     map[string]int64
	domains  map[string]string
	config   map[string]string
	features []string
	time     int64
	mark     int64
	ranges   map[string][2]int64 // of row ids, by the path that they were given to
}

type naiveAction struct {
	Path           string
	DeletionVector *struct{ PathOrInlineDv string }
	BaseRowID      *int64 `json:"baseRowId"`
	RowVersion     *int64 `json:"defaultRowCommitVersion"`
	Stats          string
	AppID          string `json:"appId"`
	Version        int64
	Domain         string
	Configuration  json.RawMessage
	Removed        bool
	WriterFeatures []string
	InCommit       *int64 `json:"inCommitTimestamp"`
}

func newNaiveTable() *naiveTable {
	return &naiveTable{files: map[string]naiveFile{}, txns: map[string]int64{}, domains: map[string]string{}, mark: -1, ranges: map[string][2]int64{}}
}

func (n *naiveTable) has(feature string) bool { return slices.Contains(n.features, feature) }

// take replays a version.
func (n *naiveTable) take(v int64, raw []byte) error {
	var adds, removes []naiveAction
	timed, first := (*int64)(nil), true
	for line := range bytes.Lines(raw) {
		var l map[string]naiveAction
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("%w: %s", err, line)
		}
		for kind, a := range l {
			switch kind {
			case "add":
				adds = append(adds, a)
			case "remove":
				removes = append(removes, a)
			case "txn":
				if was, ok := n.txns[a.AppID]; ok && a.Version <= was {
					return fmt.Errorf("app %s goes from %d to %d", a.AppID, was, a.Version)
				}
				n.txns[a.AppID] = a.Version
			case "domainMetadata":
				var text string
				if err := json.Unmarshal(a.Configuration, &text); err != nil {
					return err
				}
				if n.domains[a.Domain] = text; a.Removed {
					delete(n.domains, a.Domain)
				}
			case "protocol":
				n.features = a.WriterFeatures
			case "metaData":
				n.config = map[string]string{}
				if err := json.Unmarshal(a.Configuration, &n.config); err != nil {
					return err
				}
			case "commitInfo":
				if timed = a.InCommit; timed != nil && !first {
					return fmt.Errorf("the time is not in the first line")
				}
			}
		}
		first = false
	}
	if err := n.takeTime(v, timed); err != nil {
		return err
	}
	return n.takeFiles(v, adds, removes)
}

func (n *naiveTable) takeTime(v int64, timed *int64) error {
	if n.config["delta.enableInCommitTimestamps"] != "true" {
		n.time = 0
		return nil
	}
	if timed == nil || *timed <= n.time {
		return fmt.Errorf("in-commit timestamp after %d", n.time)
	}
	if n.time == 0 && v > 0 {
		want := []string{fmt.Sprint(v), fmt.Sprint(*timed)}
		got := []string{n.config["delta.inCommitTimestampEnablementVersion"], n.config["delta.inCommitTimestampEnablementTimestamp"]}
		if !slices.Equal(want, got) {
			return fmt.Errorf("enablement %v, want %v", got, want)
		}
	}
	n.time = *timed
	return nil
}

func (a *naiveAction) dv() string {
	if a.DeletionVector == nil {
		return ""
	}
	return a.DeletionVector.PathOrInlineDv
}

func (n *naiveTable) takeFiles(v int64, adds, removes []naiveAction) error {
	gone := map[string]naiveFile{}
	for _, r := range removes {
		f, ok := n.files[r.Path]
		if !ok || f.dv != r.dv() {
			return fmt.Errorf("removes %s %q, live is %t %q", r.Path, r.dv(), ok, f.dv)
		}
		if f.base != nil && (r.BaseRowID == nil || *r.BaseRowID != *f.base || *r.RowVersion != *f.version) {
			return fmt.Errorf("the remove of %s lost its row ids", r.Path)
		}
		gone[r.Path] = f
		delete(n.files, r.Path)
	}
	mark := n.mark
	if text := n.domains["delta.rowTracking"]; text != "" {
		var d struct{ RowIDHighWaterMark int64 }
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			return err
		}
		if d.RowIDHighWaterMark < mark {
			return fmt.Errorf("the mark falls from %d to %d", mark, d.RowIDHighWaterMark)
		}
		mark = d.RowIDHighWaterMark
	}
	for _, a := range adds {
		was, live := n.files[a.Path]
		if !live {
			was, live = gone[a.Path]
		} else if was.dv != a.dv() {
			return fmt.Errorf("adds %s %q beside %q", a.Path, a.dv(), was.dv)
		}
		var stats struct{ NumRecords int64 }
		if a.Stats != "" {
			if err := json.Unmarshal([]byte(a.Stats), &stats); err != nil {
				return err
			}
		}
		f := naiveFile{dv: a.dv(), base: a.BaseRowID, version: a.RowVersion, rows: stats.NumRecords}
		if n.has("rowTracking") {
			if err := n.takeRows(v, a, f, was, live, mark); err != nil {
				return err
			}
		}
		n.files[a.Path] = f
	}
	n.mark = mark
	return nil
}

func (n *naiveTable) takeRows(v int64, a naiveAction, f, was naiveFile, live bool, mark int64) error {
	if f.base == nil || f.version == nil {
		return fmt.Errorf("%s has no row ids", a.Path)
	}
	if live && was.base != nil {
		if *f.base != *was.base || *f.version != *was.version {
			return fmt.Errorf("%s had ids %d@%d, now %d@%d", a.Path, *was.base, *was.version, *f.base, *f.version)
		}
		return nil
	}
	end := *f.base + f.rows - 1
	if *f.base <= n.mark || end > mark || *f.version != v {
		return fmt.Errorf("%s gets %d to %d@%d in version %d, the mark went from %d to %d", a.Path, *f.base, end, *f.version, v, n.mark, mark)
	}
	for other, r := range n.ranges {
		if *f.base <= r[1] && r[0] <= end {
			return fmt.Errorf("ids of %s overlap with those of %s", a.Path, other)
		}
	}
	n.ranges[fmt.Sprintf("%s@%d", a.Path, v)] = [2]int64{*f.base, end}
	return nil
}
