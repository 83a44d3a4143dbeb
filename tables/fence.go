package tables

import "slices"

// FenceFeature is the writer feature of a fenced table (R11). No engine knows it, so
// none writes; it is no reader feature, so all read.
const FenceFeature = "txcoordFence"

var fenceBit = featureBits[FenceFeature]

// Fenced reports whether the table's protocol has the fence, whoever put it there.
func (p *Profile) Fenced() bool { return p.inForce&fenceBit != 0 }

// FenceLine is the protocol action that raises or lifts the table's fence. A table of
// an old writer version goes to 7, with all that its version brought along listed,
// since 7 has what it names and nothing else; it stays there when the fence is lifted.
// The reader version and its features stay.
func (p *Profile) FenceLine(raise bool) []byte {
	next := p.Protocol
	if next.MinWriter < 7 {
		next.MinWriter, next.WriterFeatures = 7, p.inForce.names()
	}
	names := slices.DeleteFunc(slices.Clone(next.WriterFeatures), func(name string) bool { return name == FenceFeature })
	if raise {
		names = append(names, FenceFeature)
	}
	if names == nil {
		names = []string{}
	}
	next.WriterFeatures = names
	return append(appendProtocol(nil, &next), '\n')
}

// names are those of the known features in the set, in the order of the list.
func (s featureSet) names() []string {
	out := []string{}
	for i := range features {
		if s&(1<<i) != 0 {
			out = append(out, features[i].Name)
		}
	}
	return out
}

// drops are the features of a table that the change's protocol lacks. That a fence
// which was there is lifted is what such a change is for.
func (f *facts) drops(has featureSet) featureSet {
	lost := has &^ f.nextFeatures
	if f.baseFeatures&fenceBit != 0 && f.nextFeatures&fenceBit == 0 {
		lost &^= fenceBit
	}
	return lost
}
