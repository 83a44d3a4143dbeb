package tables

import (
	"fmt"
	"slices"
	"strings"
)

// ProtocolChange says in words who loses the table when a part's protocol action comes into
// force; empty if nobody does, or the part has none.
func ProtocolChange(p *Profile, a *Actions) string {
	next := a.Protocol
	if next == nil {
		return ""
	}
	was := p.Protocol
	readers, writers := p.inForce.without(next.ReaderFeatures), p.inForce.without(next.WriterFeatures)
	if next.MinReader <= was.MinReader && next.MinWriter <= was.MinWriter && len(readers) == 0 && len(writers) == 0 {
		return ""
	}
	text := fmt.Sprintf("the table's protocol becomes reader %d, writer %d (it was %d, %d)", next.MinReader, next.MinWriter, was.MinReader, was.MinWriter)
	switch {
	case len(readers) > 0:
		text += "; who does not know the reader features " + strings.Join(readers, ", ") + " cannot read it any more"
	case next.MinReader > was.MinReader:
		text += "; who does not know that reader version cannot read it any more"
	default:
		text += "; who could read it still can"
	}
	if len(writers) > 0 {
		text += "; who does not know the writer features " + strings.Join(writers, ", ") + " cannot write it any more"
	}
	return text + "; it cannot be taken back here"
}

// without are the names of features that the set has not, sorted. What a version number
// stands for is in the set.
func (s featureSet) without(names []string) (out []string) {
	for _, name := range names {
		if !s.covers(name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
