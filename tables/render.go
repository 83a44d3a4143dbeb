package tables

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/txcoord/txcoord/twophase"
)

// RenderTxn is a transaction in a version, with its staged pieces in order.
type RenderTxn struct {
	ID twophase.TxnID
	// Digests and Pieces belong together.
	Digests []twophase.Digest
	Pieces  [][]byte
	// Tables are all that the transaction writes; of one alone the version says nothing.
	Tables []twophase.TableID
	// Blind: its read declaration says so. Else Read is the version that it had read.
	Blind bool
	Read  twophase.Version
}

// RenderInput is all that a version of ours is made of. Every value comes from the
// journal or the table's log, so that every publisher makes the same bytes (R2).
type RenderInput struct {
	Catalog, Incarnation string
	// Round names the round that the version belongs to.
	Round string
	// EngineVersion is this build's.
	EngineVersion string
	// Time is the round's.
	Time twophase.Time
	// Later counts the versions of the round that follow this one on the table.
	Later int
	// Tail is the table at the version below (Log.Prepare). Without it nothing is
	// rewritten; only tables without features that ask for it may do so.
	Tail *Tail
	// Marker is the number of the last change in the version (R3).
	Marker twophase.ChangeNumber
	Txns   []RenderTxn
	// NotApplied makes the version a barrier (R4): Txns is empty then, and Marker
	// repeats that of the version below.
	NotApplied []TxnRef
}

// Rendered is a version of ours.
type Rendered struct {
	Data []byte
	// InCommitTimestamp is 0 where the table has none. Aligned: it is the one that
	// lines the table up with the others of the round. It is not where the version
	// below has that time already, or a later one.
	InCommitTimestamp twophase.Time
	Aligned           bool
}

// RenderCommit makes the bytes of a version (CONTRACT.md section 5): commitInfo,
// the marker, then the staged lines in decided order, byte for byte save what the
// table's features ask to be written for the version (Tail). The client's commitInfo
// is merged into ours if it is the only transaction's, else it is left out. Pure.
func RenderCommit(in RenderInput) (Rendered, error) {
	out := Rendered{Aligned: true}
	if (len(in.Txns) == 0) == (len(in.NotApplied) == 0) {
		return out, fmt.Errorf("render a version of %d transactions and %d not applied: want one kind", len(in.Txns), len(in.NotApplied))
	}
	lines, clientInfo := in.stagedLines()
	preserved := false
	if in.Tail != nil {
		r, err := in.rewrite(lines)
		if err != nil {
			return out, err
		}
		lines = r.lines
		out.InCommitTimestamp, out.Aligned = r.time, r.time == 0 || r.time == in.wanted()
		preserved = r.onlyAdds()
	}
	size := 1024
	for i := range lines {
		size += len(lines[i].text) + 1
	}
	for i := range in.Txns {
		size += 128 * len(in.Txns[i].Digests)
	}
	var err error
	if out.Data, err = in.commitInfo(make([]byte, 0, size), clientInfo, out.InCommitTimestamp, preserved); err != nil {
		return out, err
	}
	out.Data = in.body(out.Data, lines)
	return out, nil
}

// body appends the marker and the lines.
func (in *RenderInput) body(out []byte, lines []stagedLine) []byte {
	out = append(out, `{"txn":{"appId":`...)
	out = appendQuoted(out, markerApp(in.Catalog))
	out = append(out, `,"version":`...)
	out = strconv.AppendInt(out, int64(in.Marker), 10)
	out = append(out, "}}\n"...)
	for i := range lines {
		out = append(out, lines[i].text...)
		if out[len(out)-1] != '\n' {
			out = append(out, '\n')
		}
	}
	return out
}

// infoOf returns the object if the line, which was parsed when it was staged, is a
// commitInfo.
func infoOf(line []byte) ([]byte, bool) {
	c := cursor{b: line}
	n := 0
	if c.open('{') != nil {
		return nil, false
	}
	name, more, err := c.key(&n)
	if err != nil || !more || kindOf(name) != kindCommitInfo {
		return nil, false
	}
	object, err := c.value()
	return object, err == nil
}

// commitInfo appends line 1. preserved: no row lost its id in this version.
func (in *RenderInput) commitInfo(out, client []byte, ict twophase.Time, preserved bool) ([]byte, error) {
	kept, err := readClientInfo(client)
	if err != nil {
		return nil, fmt.Errorf("render a version: the client's commitInfo: %w", err)
	}
	out = append(out, `{"commitInfo":{`...)
	if ict != 0 {
		// First, as the feature's readers like it.
		out = appendInt(append(out, `"inCommitTimestamp":`...), int64(ict))
		out = append(out, ',')
	}
	out = appendInt(append(out, `"timestamp":`...), int64(in.Time))
	out = append(append(out, `,"operation":`...), kept.operation...)
	out = append(append(out, `,"operationParameters":`...), kept.parameters...)
	out = append(out, `,"engineInfo":`...)
	out = appendQuoted(out, "txcoord/"+in.EngineVersion)
	out = strconv.AppendBool(append(out, `,"isBlindAppend":`...), in.blind())
	out = append(out, `,"txnId":`...)
	out = appendQuoted(out, in.txnID())
	out = append(out, kept.others...)
	out = append(out, `,"tags":{`...)
	out = in.appendTags(out)
	out = append(out, kept.tags...)
	if preserved && !kept.preserved {
		out = append(out, `,"`+tagPreserved+`":"true"`...)
	}
	return append(out, "}}}\n"...), nil
}

func appendInt(out []byte, n int64) []byte { return strconv.AppendInt(out, n, 10) }

// blind: true only if every transaction declared so.
func (in *RenderInput) blind() bool {
	for _, t := range in.Txns {
		if !t.Blind {
			return false
		}
	}
	return len(in.Txns) > 0
}

// txnID is Delta's name for the commit: the transaction's if there is one, else one
// that no other version of the table has.
func (in *RenderInput) txnID() string {
	switch {
	case len(in.Txns) == 1:
		return in.Txns[0].ID.String()
	case len(in.Txns) > 1:
		return in.Incarnation + "/" + in.Round + "/" + strconv.FormatInt(int64(in.Marker), 10)
	}
	return in.Incarnation + "/barrier/" + in.NotApplied[0].ID.String()
}

func (in *RenderInput) appendTags(out []byte) []byte {
	tag := func(name, value string) {
		if out[len(out)-1] != '{' {
			out = append(out, ',')
		}
		out = appendQuoted(out, name)
		out = append(out, ':')
		out = appendQuoted(out, value)
	}
	tag(tagCatalog, in.Catalog)
	tag(tagIncarnation, in.Incarnation)
	tag(tagRound, in.Round)
	var refs []TxnRef
	for _, t := range in.Txns {
		for _, d := range t.Digests {
			refs = append(refs, TxnRef{t.ID, d})
		}
	}
	tag(tagTransactions, refList(refs))
	if len(in.NotApplied) > 0 {
		tag(tagNotApplied, refList(in.NotApplied))
	}
	if text := participants(in.Txns); text != "" {
		tag(tagParticipants, text)
	}
	if len(in.Txns) == 1 {
		tag(tagMultiTable, in.Txns[0].ID.String())
	}
	return out
}

// refList is a JSON array of [id, digest].
func refList(refs []TxnRef) string {
	var b strings.Builder
	b.Grow(2 + 104*len(refs))
	b.WriteByte('[')
	for i, r := range refs {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`["` + r.ID.String() + `","` + r.Digest.String() + `"]`)
	}
	b.WriteByte(']')
	return b.String()
}

// clientInfo is what is kept of a client's commitInfo, as raw JSON.
type clientInfo struct {
	operation, parameters string
	// others are the fields that we do not write, each behind a comma; tags likewise.
	others, tags []byte
	// preserved: one of the tags says whether row ids were preserved.
	preserved bool
}

// ownFields are written by us, whatever the client wrote.
var ownFields = map[string]bool{
	"timestamp": true, "inCommitTimestamp": true, "operation": true, "operationParameters": true,
	"engineInfo": true, "isBlindAppend": true, "txnId": true, "tags": true,
}

func readClientInfo(object []byte) (clientInfo, error) {
	kept := clientInfo{operation: `"WRITE"`, parameters: `{}`}
	if object == nil {
		return kept, nil
	}
	seen := map[string]bool{}
	var tags []byte
	err := members(object, func(name, value []byte) bool {
		switch key := string(name); {
		case seen[key]:
		case key == "operation" && value[0] == '"':
			kept.operation = string(value)
		case key == "operationParameters" && value[0] == '{':
			kept.parameters = string(value)
		case key == "tags" && value[0] == '{':
			tags = value
		case !ownFields[key]:
			kept.others = appendMember(kept.others, key, value)
		}
		seen[string(name)] = true
		return true
	})
	if err != nil || tags == nil {
		return kept, err
	}
	// Tags are strings for all engines; Validate refuses others.
	seen = map[string]bool{tagMultiTable: true}
	err = members(tags, func(name, value []byte) bool {
		if key := string(name); !seen[key] && !strings.HasPrefix(key, tagPrefix) && value[0] == '"' {
			kept.tags = appendMember(kept.tags, key, value)
			seen[key] = true
		}
		return true
	})
	kept.preserved = seen[tagPreserved]
	return kept, err
}

func appendMember(out []byte, name string, value []byte) []byte {
	out = appendQuoted(append(out, ','), name)
	return append(append(out, ':'), value...)
}
