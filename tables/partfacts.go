package tables

import (
	"fmt"

	"github.com/txcoord/txcoord/twophase"
)

// PartFacts are the facts of a part that was validated against the profile, with
// its read declaration. *InputError if the two do not go together.
func PartFacts(a *Actions, p *Profile, r ReadDeclaration) (twophase.Facts, error) {
	return PartFactsSince(a, p, p.Fingerprint(), r)
}

// PartFactsSince is PartFacts for a part that was staged when the profile had this
// fingerprint: if protocol or metadata changed since, Fits finds the conflict. A
// blind part has no read point from which Conflict could find it.
func PartFactsSince(a *Actions, p *Profile, staged Fingerprint, r ReadDeclaration) (twophase.Facts, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if err := checkBlind(a, &r); err != nil {
		return nil, err
	}
	b := &builder{}
	b.bind(p)
	if staged != p.fingerprint {
		if err := b.since(staged); err != nil {
			return nil, err
		}
	}
	if err := b.addReads(p, &r); err != nil {
		return nil, err
	}
	b.addFiles(a, p)
	b.addDefinitions(a, p)
	if r.Kind == ReadNothing && a.Shape().Appends {
		b.flags |= flagAppends
	}
	if len(a.Adds) > 0 {
		b.keys = p.keysHash
		if a.MetaData != nil {
			b.keys = b.nextKeys
		}
	}
	b.appList = a.Txns
	b.addDomains(a)
	if len(a.Adds)+len(a.Removes) > 0 && !b.is(flagChangesData) && a.MetaData == nil && a.Protocol == nil {
		b.flags |= flagSnapshot // only rearranges: Spark asks for no more either
	}
	return b.encode(), nil
}

// checkBlind: who removes, or changes what the table is, has read it.
func checkBlind(a *Actions, r *ReadDeclaration) error {
	if !r.Blind {
		return nil
	}
	refuse := func(line int, field string) error {
		return &InputError{
			Line: line, Field: field, Reason: "a blind part holds add and txn only",
			Remedy: "declare the version that was read",
		}
	}
	switch {
	case len(a.Removes) > 0:
		return refuse(a.Removes[0].Line, "remove")
	case a.CDCs > 0:
		return refuse(0, "cdc")
	case len(a.Domains) > 0:
		return refuse(0, "domainMetadata")
	case a.MetaData != nil:
		return refuse(0, "metaData")
	case a.Protocol != nil:
		return refuse(0, "protocol")
	}
	return nil
}

// ReadFacts are those of a table that a transaction read and does not write.
func ReadFacts(p *Profile, r ReadDeclaration) (twophase.Facts, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if r.Blind {
		return nil, &InputError{Field: "read.point", Reason: "a participant that is only read cannot be blind"}
	}
	b := &builder{}
	b.bind(p)
	if err := b.addReads(p, &r); err != nil {
		return nil, err
	}
	return b.encode(), nil
}

// CommitFacts are those of a version in the log, whoever wrote it. prev is the
// table below it; without it more counts as changed, and any partition as touched.
// Markers of ours are no applications.
func CommitFacts(c *Commit, prev *Profile) twophase.Facts {
	b := &builder{}
	b.flags |= flagForeign
	if prev != nil {
		b.bind(prev)
	}
	if c.BlindAppend {
		b.flags |= flagBlind
	}
	a := c.Actions
	b.addFiles(a, prev)
	b.addDefinitions(a, prev)
	b.appList = c.Apps()
	b.addDomains(a)
	return b.encode()
}

// bind notes the table as it was when the part was staged.
func (b *builder) bind(p *Profile) {
	b.id, b.baseLook, b.baseConfig, b.baseFeatures = p.idHash, p.look, p.config, p.inForce
}

func (b *builder) since(staged Fingerprint) error {
	var features uint64
	if _, err := fmt.Sscanf(string(staged), fingerprintForm, &b.baseLook, &b.baseConfig, &features); err != nil {
		return fmt.Errorf("fingerprint %q of a table: %w", cut(staged), err)
	}
	b.baseFeatures = featureSet(features)
	return nil
}

func (b *builder) addFiles(a *Actions, p *Profile) {
	b.addList, b.removeList = pairsOf(a.Adds), pairsOf(a.Removes)
	if len(a.Adds)+len(a.Removes) == 0 {
		b.flags |= flagChangesData
	}
	b.flags |= flagCounted
	for i := range a.Adds {
		if !a.Adds[i].NumRecords {
			b.flags &^= flagCounted
		}
		if a.Adds[i].DataChange {
			b.flags |= flagChangesData
		}
	}
	for i := range a.Removes {
		if a.Removes[i].DataChange {
			b.flags |= flagChangesData | flagRemovesData
		}
	}
	b.addPartitions(a, p)
}

func pairsOf(files []File) []pair {
	out := make([]pair, len(files))
	for i := range files {
		out[i] = pair{files[i].Hash, files[i].DV}
	}
	return out
}

// addPartitions notes which partitions adds and removes touch.
func (b *builder) addPartitions(a *Actions, p *Profile) {
	if p == nil {
		b.flags |= flagAddsAnywhere | flagRemovesAnywhere
		return
	}
	if len(p.keys) == 0 {
		return
	}
	b.columnList = p.columns
	tuples := func(files []File, anywhere flag) (out [][]uint64) {
		seen := make([]bool, len(a.Partitions))
		for i := range files {
			n := files[i].Partition
			switch {
			case n < 0 || !p.hasKeys(a.Partitions[n]):
				b.flags |= anywhere
			case !seen[n]:
				seen[n] = true
				tuple := make([]uint64, len(p.keys))
				for j, v := range a.Partitions[n] {
					tuple[j] = valueHash(p.types[j], v.Value)
				}
				out = append(out, tuple)
			}
		}
		return out
	}
	b.addTuple, b.removeTuple = tuples(a.Adds, flagAddsAnywhere), tuples(a.Removes, flagRemovesAnywhere)
}

// addDefinitions notes what a protocol or metaData action makes of the table.
func (b *builder) addDefinitions(a *Actions, prev *Profile) {
	if a.Protocol != nil {
		b.flags |= flagProtocol
		b.nextFeatures = a.Protocol.inForce()
		if a.Protocol.checkWritable("") != nil {
			b.flags |= flagUnsupported
		}
	}
	if a.Protocol == nil && a.MetaData == nil {
		return
	}
	next, known := nextProfile(a, prev)
	if next.counts() || !known && b.nextFeatures.has("rowTracking") {
		b.flags |= flagCounts
	}
	if next.appendOnly() || !known && isTrue(next.Property("delta.appendOnly")) {
		b.flags |= flagAppendOnly
	}
	if a.MetaData == nil {
		return
	}
	b.flags |= flagMetaData
	b.nextID, b.nextKeys, b.nextLook, b.nextConfig = next.idHash, next.keysHash, next.look, next.config
	if prev != nil {
		b.flags |= prev.stepTo(next).flag()
	}
	for _, old := range next.earlier {
		if !next.schema.holds(old.schema) {
			b.unfitList = append(b.unfitList, old.look)
		}
	}
}

// nextProfile is the table after a part. Without the table before it, what the part
// does not say is left empty.
func nextProfile(a *Actions, prev *Profile) (next *Profile, known bool) {
	uri, protocol, meta := "", &Protocol{}, &MetaData{}
	if prev != nil {
		uri, protocol, meta = prev.URI, &prev.Protocol, &prev.MetaData
	}
	if a.Protocol != nil {
		protocol = a.Protocol
	}
	if a.MetaData != nil {
		meta = a.MetaData
	}
	return newProfile(uri, 0, protocol, meta, prev), prev != nil
}

func (s step) flag() flag {
	switch s {
	case stepSame:
		return flagMetaDataSame
	case stepHarmless:
		return flagMetaHarmless
	case stepAdditive:
		return flagMetaAdditive
	default:
		return 0
	}
}

func (b *builder) addDomains(a *Actions) {
	for _, d := range a.Domains {
		if d.Name != rowTrackingDomain {
			b.domList = append(b.domList, hashTexts("domain", d.Name))
		}
	}
}
