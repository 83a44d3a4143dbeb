package checker

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A version of ours: its tags, its marker, its transactions.

var (
	hexID     = regexp.MustCompile(`^[0-9a-f]{32}$`)
	hexDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)
	// known are the top-level actions that a commit may hold.
	known = []string{"commitInfo", "protocol", "metaData", "add", "remove", "cdc", "txn", "domainMetadata"}
)

// listed is one [id, digest] of a tag.
type listed struct{ id, digest string }

// ours reports whether a version names this catalog.
func (c *check) ours(v *version) bool {
	return c.catalogID != "" && v.tag(tagCatalog) == c.catalogID
}

// checkOwn walks a table's versions of ours in order, and notes where each
// transaction lies.
func (c *check) checkOwn(t Table) {
	l := c.logs[t.Name]
	given := map[string]int64{}
	marker := int64(0)
	first := true
	for _, n := range l.numbers() {
		v := l.versions[n]
		if v.problem != nil || !c.ours(v) {
			continue
		}
		c.report.OwnVersions++
		txns, notApplied := c.checkTags(t, n, v)
		next, ok := c.checkMarker(t, n, v)
		if ok {
			c.checkMarkerOrder(t, n, step{from: marker, to: next, txns: len(idsOf(txns)), barrier: len(notApplied) > 0, first: first && !l.complete(n)})
			marker, first = next, false
		}
		c.deliver(t, n, txns)
		for _, x := range notApplied {
			// A barrier that was cleaned may never have been recorded; then the
			// change was pending again (R4).
			if !l.cleaned[n] {
				given[x.id] = n
			}
		}
	}
	c.checkGiven(t, given)
}

// complete reports whether all versions below n are known.
func (l *tableLog) complete(n int64) bool {
	for i := range n {
		if l.versions[i] == nil {
			return false
		}
	}
	return true
}

// checkTags checks the commitInfo and returns the transactions it delivers and
// those it gives up.
func (c *check) checkTags(t Table, n int64, v *version) (txns, notApplied []listed) {
	bad := func(format string, args ...any) {
		c.fail(TagsMalformed, Violation{Table: t.Name, Version: n}, format, args...)
	}
	if v.actions[0] != "commitInfo" || slices.Index(v.actions[1:], "commitInfo") >= 0 {
		bad("commitInfo is not line 1 alone")
	}
	for _, a := range v.actions {
		if !slices.Contains(known, a) {
			bad("action %q is not one of Delta's", a)
		}
	}
	c.checkInfo(v, bad)
	for name, raw := range v.info.Tags {
		if len(raw) == 0 || raw[0] != '"' {
			bad("tag %s is not a string: %s", name, raw)
		}
	}
	for _, name := range []string{tagIncarnation, tagRound} {
		if v.tag(name) == "" {
			bad("no tag %s", name)
		}
	}
	notApplied = c.listedIn(v, tagNotApplied, bad)
	txns = c.listedIn(v, tagTransactions, bad)
	if len(notApplied) == 0 && v.info.Tags[tagTransactions] == nil {
		bad("no tag %s", tagTransactions)
	}
	c.checkBarrier(v, txns, notApplied, bad)
	c.checkMultiTable(v, txns, bad)
	return txns, notApplied
}

func (c *check) checkInfo(v *version, bad func(string, ...any)) {
	i := v.info
	switch {
	case i.Timestamp == nil:
		bad("commitInfo without a timestamp")
	case i.Operation == "":
		bad("commitInfo without an operation")
	case !strings.HasPrefix(i.EngineInfo, "txcoord/"):
		bad("engineInfo is %q", i.EngineInfo)
	case i.IsBlindAppend == nil:
		bad("commitInfo without isBlindAppend")
	case i.TxnID == "":
		bad("commitInfo without a txnId")
	}
}

// listedIn reads a tag that is a JSON array of [id, digest], as a string.
func (c *check) listedIn(v *version, tag string, bad func(string, ...any)) []listed {
	if v.info.Tags[tag] == nil {
		return nil
	}
	var pairs [][]string
	if err := json.Unmarshal([]byte(v.tag(tag)), &pairs); err != nil {
		bad("tag %s is not a JSON array of [id, digest]: %v", tag, err)
		return nil
	}
	out := make([]listed, 0, len(pairs))
	for i, p := range pairs {
		if len(p) != 2 || !hexID.MatchString(p[0]) || !hexDigest.MatchString(p[1]) {
			bad("tag %s, element %d is not [32 hex digits, 64 hex digits]: %q", tag, i, p)
			continue
		}
		out = append(out, listed{id: p[0], digest: p[1]})
	}
	return out
}

// checkBarrier: a version delivers transactions or gives some up (R4), never both
// and never neither; one that gives up holds nothing but its two lines.
func (c *check) checkBarrier(v *version, txns, notApplied []listed, bad func(string, ...any)) {
	switch {
	case len(txns) == 0 && len(notApplied) == 0:
		bad("names no transaction")
	case len(txns) > 0 && len(notApplied) > 0:
		bad("delivers transactions and gives some up")
	case len(notApplied) > 0 && len(v.actions) != 2:
		bad("gives transactions up and holds %d lines, want 2", len(v.actions))
	}
}

func (c *check) checkMultiTable(v *version, txns []listed, bad func(string, ...any)) {
	_, tagged := v.info.Tags[tagMultiTable]
	one := len(idsOf(txns)) == 1
	switch {
	case tagged != one:
		bad("tag %s: there is one transaction: %t, tagged: %t", tagMultiTable, one, tagged)
	case one && v.tag(tagMultiTable) != txns[0].id:
		bad("tag %s names %s, delivered is %s", tagMultiTable, v.tag(tagMultiTable), txns[0].id)
	}
}

// idsOf lists the ids in order, each once.
func idsOf(txns []listed) []string {
	var ids []string
	seen := map[string]bool{}
	for _, x := range txns {
		if !seen[x.id] {
			seen[x.id] = true
			ids = append(ids, x.id)
		}
	}
	return ids
}

// checkMarker wants the marker on line 2 and nowhere else, and returns its number.
func (c *check) checkMarker(t Table, n int64, v *version) (int64, bool) {
	at := Violation{Table: t.Name, Version: n}
	var markers []appTxn
	for _, x := range v.txns {
		if strings.HasPrefix(x.AppID, "txcoord/") {
			markers = append(markers, x)
		}
	}
	if len(markers) != 1 {
		c.fail(MarkerMalformed, at, "%d txn actions of ours, want 1", len(markers))
		return 0, false
	}
	m := markers[0]
	switch {
	case m.line != 2:
		c.fail(MarkerMalformed, at, "the marker is on line %d, want 2", m.line)
	case m.AppID != "txcoord/"+c.catalogID:
		c.fail(MarkerMalformed, at, "the marker's app is %q", m.AppID)
	case m.LastUpdated != nil:
		c.fail(MarkerMalformed, at, "the marker has lastUpdated, so clean-up may drop it")
	}
	return m.Version, true
}

// step is one move of a table's marker.
type step struct {
	from, to int64
	txns     int
	// barrier: the version gives up, and so repeats the marker below it.
	barrier bool
	// first: versions before this one are unknown, so from is as well.
	first bool
}

// checkMarkerOrder: change numbers rise by one with each decided change (R2), and
// those that were given up are skipped.
func (c *check) checkMarkerOrder(t Table, n int64, s step) {
	low := s.from + int64(s.txns)
	var want string
	switch {
	case s.first:
		return
	case s.barrier && s.to != s.from:
		want = fmt.Sprintf("%d, that of the version below", s.from)
	case !s.barrier && s.to < low:
		want = fmt.Sprintf("at least %d", low)
	case !s.barrier && c.run.Dense && s.to != low:
		want = fmt.Sprintf("%d, since nothing was given up", low)
	default:
		return
	}
	c.fail(MarkerOrder, Violation{Table: t.Name, Version: n}, "marker %d after %d with %d transactions, want %s", s.to, s.from, s.txns, want)
}

// deliver notes where the version's transactions lie.
func (c *check) deliver(t Table, n int64, txns []listed) {
	here := map[string]bool{}
	last := ""
	for _, x := range txns {
		at := Violation{Table: t.Name, Version: n, Txn: x.id}
		p, known := c.places[x.id][t.Name]
		switch {
		case here[x.id] && last != x.id:
			c.fail(TransactionTwice, at, "listed twice in this version, others between")
			continue
		case here[x.id] && slices.Contains(p.digests, x.digest):
			c.fail(TransactionTwice, at, "listed twice in this version with one digest")
			continue
		case !here[x.id] && known:
			c.fail(TransactionTwice, at, "already in version %d", p.version)
			continue
		case !known:
			c.order[t.Name] = append(c.order[t.Name], x.id)
		}
		if !here[x.id] {
			p.index = len(here)
		}
		here[x.id], last = true, x.id
		if c.places[x.id] == nil {
			c.places[x.id] = map[string]place{}
		}
		c.places[x.id][t.Name] = place{version: n, index: p.index, digests: append(p.digests, x.digest)}
	}
}

// checkGiven: what a barrier gave up is in no version.
func (c *check) checkGiven(t Table, given map[string]int64) {
	for id, n := range given {
		if p, ok := c.places[id][t.Name]; ok {
			c.fail(TransactionGivenUp, Violation{Table: t.Name, Version: n, Txn: id}, "given up here, delivered by version %d", p.version)
		}
	}
}
