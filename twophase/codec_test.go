package twophase_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/txcoord/txcoord/twophase"
	"github.com/txcoord/txcoord/twophase/recordpb"
)

// Generators of everything that an entry may hold.

func genText(t *rapid.T, what string) string {
	return rapid.StringMatching(`[a-zäß0-9/ ]{0,12}`).Draw(t, what)
}

func genHash(t *rapid.T) twophase.Hash {
	return twophase.HashOf([]byte{rapid.Byte().Draw(t, "hash")})
}

func genTxn(t *rapid.T) twophase.TxnID {
	return twophase.DeriveTxnID("c", fmt.Sprint(rapid.IntRange(0, 50).Draw(t, "txn")), 1)
}

func genList[T any](t *rapid.T, what string, gen func(*rapid.T) T) []T {
	var out []T
	for range rapid.IntRange(0, 3).Draw(t, what) {
		out = append(out, gen(t))
	}
	return out
}

func genVersion(t *rapid.T) twophase.Version {
	return twophase.Version(rapid.Int64Range(-1, 1<<40).Draw(t, "version"))
}

func genRef(t *rapid.T) twophase.ObjectRef {
	if rapid.Bool().Draw(t, "no ref") {
		return twophase.ObjectRef{}
	}
	return twophase.ObjectRef{Name: "o" + genText(t, "object"), Size: rapid.Uint64().Draw(t, "size"), Hash: genHash(t)}
}

func genFacts(t *rapid.T) twophase.Facts {
	if b := rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "facts"); len(b) > 0 {
		return b
	}
	return nil
}

func genApps(t *rapid.T) []twophase.AppVersion {
	return genList(t, "apps", func(t *rapid.T) twophase.AppVersion {
		return twophase.AppVersion{App: genText(t, "app"), Version: rapid.Int64().Draw(t, "app version")}
	})
}

func genRead(t *rapid.T) twophase.ReadPoint {
	return twophase.ReadPoint{Blind: rapid.Bool().Draw(t, "blind"), Version: genVersion(t)}
}

func genPart(t *rapid.T) twophase.Part {
	return twophase.Part{
		Table: twophase.TableID(genText(t, "table")), MetaDataID: genText(t, "meta"), Digests: genList(t, "digests", genHash), Read: genRead(t),
		Facts: genFacts(t), FactsRef: genRef(t),
		Shape: twophase.Shape{
			Appends: rapid.Bool().Draw(t, "appends"), DataChange: rapid.Bool().Draw(t, "data change"),
			Bytes: rapid.Uint64().Draw(t, "bytes"), Apps: genApps(t),
		},
		Create: genCreation(t), Fence: twophase.Fencing(rapid.IntRange(0, 2).Draw(t, "fence")),
	}
}

func genCreation(t *rapid.T) *twophase.Creation {
	if !rapid.Bool().Draw(t, "creates") {
		return nil
	}
	return &twophase.Creation{
		Name: genText(t, "name"), URI: genText(t, "uri"), Mode: twophase.Mode(rapid.IntRange(0, 2).Draw(t, "mode")),
		OneTxnPerVersion: rapid.Bool().Draw(t, "single"),
	}
}

func genFound(t *rapid.T) twophase.FoundVersion {
	return twophase.FoundVersion{Version: genVersion(t), Identity: genHash(t), Txns: genList(t, "txns", genTxn)}
}

func genVerdict(t *rapid.T) twophase.Verdict {
	return twophase.Verdict{
		Change:   twophase.ChangeNumber(rapid.Int64Range(1, 99).Draw(t, "change")),
		Conflict: twophase.Conflict{Rule: twophase.Rule(rapid.IntRange(0, 18).Draw(t, "rule")), Path: genText(t, "path"), Detail: genText(t, "detail")},
	}
}

func genRegistered(t *rapid.T) twophase.Registered {
	return twophase.Registered{
		Table: twophase.TableID(genText(t, "table")), Name: genText(t, "name"), URI: genText(t, "uri"), MetaDataID: genText(t, "meta"),
		Mode: twophase.Mode(rapid.IntRange(0, 2).Draw(t, "mode")), Version: genVersion(t), Identity: genHash(t),
		Marker: twophase.ChangeNumber(rapid.Int64Range(0, 99).Draw(t, "marker")), OneTxnPerVersion: rapid.Bool().Draw(t, "single"),
	}
}

func genRound(t *rapid.T) twophase.RoundID {
	return twophase.RoundID{Opened: twophase.Position(rapid.Uint64().Draw(t, "opened")), Index: rapid.Uint32().Draw(t, "index")}
}

func genKnown(t *rapid.T) twophase.Known {
	return twophase.Known{
		Txn: genTxn(t), Snapshot: twophase.SnapshotVersion(rapid.Uint64().Draw(t, "snapshot")),
		Parts: genList(t, "parts", func(t *rapid.T) twophase.KnownPart {
			return twophase.KnownPart{
				Table: twophase.TableID(genText(t, "table")), Digests: genList(t, "digests", genHash), Version: genVersion(t),
				Place: rapid.Uint32().Draw(t, "place"), Change: twophase.ChangeNumber(rapid.Int64Range(0, 99).Draw(t, "change")),
			}
		}),
	}
}

// genRecord makes a record of each kind.
func genRecord(t *rapid.T) twophase.Record {
	table := twophase.TableID(genText(t, "table"))
	switch rapid.IntRange(0, 21).Draw(t, "kind") {
	case 0:
		c := &twophase.Committed{
			Txn: genTxn(t), Key: genText(t, "key"), Attempt: rapid.Uint32().Draw(t, "attempt"),
			Begun: twophase.Position(rapid.Uint64().Draw(t, "begun")), Parts: genList(t, "parts", genPart),
			Reads: genList(t, "reads", func(t *rapid.T) twophase.ReadPart {
				return twophase.ReadPart{Table: twophase.TableID(genText(t, "table")), Read: genRead(t), Facts: genFacts(t)}
			}),
			Releases: genList(t, "releases", func(t *rapid.T) twophase.TableID { return twophase.TableID(genText(t, "released")) }),
			Bundles:  genList(t, "bundles", func(t *rapid.T) twophase.BundleID { return twophase.BundleID(genTxn(t)) }),
		}
		for i := range c.Parts {
			c.Parts[i].Bundle = rapid.Uint32Range(0, uint32(len(c.Bundles))).Draw(t, "bundle")
		}
		return c
	case 1:
		return &twophase.Aborted{
			Txn: genTxn(t), Key: genText(t, "key"), Attempt: rapid.Uint32().Draw(t, "attempt"),
			Begun: twophase.Position(rapid.Uint64().Draw(t, "begun")), Rule: twophase.Rule(rapid.IntRange(0, 18).Draw(t, "rule")),
			Table: table, Version: genVersion(t), Path: genText(t, "path"), Winner: genTxn(t), Detail: genText(t, "detail"),
		}
	case 2:
		return &twophase.Published{Round: genRound(t), Tables: genList(t, "tables", func(t *rapid.T) twophase.PublishedTable {
			return twophase.PublishedTable{Table: twophase.TableID(genText(t, "table")), Versions: genList(t, "versions", genFound)}
		})}
	case 3:
		return &twophase.Foreign{
			Table: table, Version: genVersion(t), Identity: genHash(t), Facts: genFacts(t), FactsRef: genRef(t), MetaDataID: genText(t, "meta"),
			Apps: genApps(t), Engine: genText(t, "engine"), InCommit: twophase.Time(rapid.Int64().Draw(t, "in commit")), Found: genList(t, "found", genFound), Verdicts: genList(t, "verdicts", genVerdict),
		}
	case 4:
		return &twophase.Barrier{
			Table: table, Version: genVersion(t), Identity: genHash(t), Found: genList(t, "found", genFound),
			NotApplied: genList(t, "not applied", genTxn), Verdicts: genList(t, "verdicts", genVerdict),
		}
	case 5:
		return &twophase.Range{
			Table: table, From: genVersion(t), To: genVersion(t), Identity: genHash(t),
			Marker: twophase.ChangeNumber(rapid.Int64Range(0, 99).Draw(t, "marker")), MetaDataID: genText(t, "meta"), Verdicts: genList(t, "verdicts", genVerdict),
		}
	case 6:
		return &twophase.Replaced{Table: table, Recorded: genVersion(t), Detail: genText(t, "detail"), GivenUp: rapid.Bool().Draw(t, "given up")}
	case 7:
		r := genRegistered(t)
		return &r
	case 8:
		return &twophase.Created{Registered: genRegistered(t)}
	case 9:
		return &twophase.Released{Table: table}
	case 10:
		return &twophase.ModeSet{Table: table, Mode: twophase.ModeOpen}
	case 11:
		return &twophase.Frozen{
			Round: genRound(t), Table: table, Cause: twophase.CauseStalled, Ground: twophase.Ground(rapid.IntRange(0, 3).Draw(t, "ground")), Txn: genTxn(t),
			Detail: genText(t, "detail"), Remedy: genText(t, "remedy"),
		}
	case 12:
		return &twophase.Thawed{Mended: rapid.Bool().Draw(t, "mended"), Table: table, Detail: genText(t, "detail")}
	case 21:
		return &twophase.Held{Table: table, Off: rapid.Bool().Draw(t, "off"), Detail: genText(t, "detail")}
	case 13:
		return &twophase.FloorRaised{Floor: twophase.Position(rapid.Uint64().Draw(t, "floor"))}
	case 14:
		return &twophase.SettingChanged{Caps: twophase.Caps{MaxVersionBytes: rapid.Uint64().Draw(t, "bytes"), MaxVersionTxns: 3, Coalesce: true, Renderer: 2, Gather: rapid.Bool().Draw(t, "gather")}}
	case 15:
		return &twophase.Checkpointed{Position: twophase.Position(rapid.Uint64().Draw(t, "position")), Object: genRef(t)}
	case 19:
		return &twophase.FenceCounted{Table: table, Version: genVersion(t), Operator: rapid.Bool().Draw(t, "operator")}
	case 16:
		return &twophase.Tagged{Name: genText(t, "tag"), Snapshot: twophase.SnapshotVersion(rapid.Uint64().Draw(t, "snapshot"))}
	case 17:
		return &twophase.Leased{
			ID: genText(t, "lease"), Snapshot: twophase.SnapshotVersion(rapid.Uint64().Draw(t, "snapshot")),
			TTL: time.Duration(rapid.IntRange(0, 1<<40).Draw(t, "ttl")) * time.Millisecond, Note: genText(t, "note"), Renew: rapid.Bool().Draw(t, "renew"),
		}
	case 18:
		return &twophase.LeaseEnded{ID: genText(t, "lease"), Until: twophase.Time(rapid.Int64().Draw(t, "until"))}
	}
	if rapid.Bool().Draw(t, "cuts") {
		return &twophase.LogCut{
			Table: table, Cut: genVersion(t), Seen: twophase.Position(rapid.Uint64().Draw(t, "seen")),
			Snapshot: twophase.SnapshotVersion(rapid.Uint64().Draw(t, "snapshot")),
		}
	}
	if rapid.Bool().Draw(t, "moves") {
		return &twophase.Moved{To: genText(t, "to")}
	}
	if rapid.Bool().Draw(t, "turns") {
		return &twophase.Turned{}
	}
	if rapid.Bool().Draw(t, "arrives") {
		return &twophase.Arrived{From: genText(t, "from")}
	}
	if rapid.Bool().Draw(t, "reserved") {
		return &twophase.Reserved{
			Key: genText(t, "key"), Attempt: rapid.Uint32().Draw(t, "attempt"), Until: twophase.Position(rapid.Uint64().Draw(t, "until")),
			Tables: genList(t, "tables", func(t *rapid.T) twophase.ReservedTable {
				return twophase.ReservedTable{Table: twophase.TableID(genText(t, "table")), Facts: genFacts(t)}
			}),
		}
	}
	if rapid.Bool().Draw(t, "reservation ends") {
		return &twophase.ReservationEnded{Key: genText(t, "key"), From: twophase.Position(rapid.Uint64().Draw(t, "from"))}
	}
	if rapid.Bool().Draw(t, "rebuilt") {
		return &twophase.Rebuilt{
			From: genText(t, "from"), Snapshot: twophase.SnapshotVersion(rapid.Uint64().Draw(t, "snapshot")),
			Since: twophase.Time(rapid.Int64().Draw(t, "since")), Tables: genList(t, "tables", genRegistered), Known: genList(t, "known", genKnown),
			Removed: genList(t, "removed", genRegistered),
			Shown:   twophase.SnapshotVersion(rapid.Uint64().Draw(t, "shown")),
		}
	}
	return &twophase.BuildEnabled{Codec: rapid.Uint32Range(twophase.FirstCodec, twophase.CodecVersion).Draw(t, "codec")}
}

func genEntry(t *rapid.T) *twophase.Entry {
	return &twophase.Entry{
		Header: twophase.Header{
			Codec:   rapid.Uint32Range(twophase.FirstCodec, twophase.CodecVersion).Draw(t, "codec"),
			Catalog: "c" + genText(t, "catalog"), Incarnation: genText(t, "incarnation"), Position: twophase.Position(rapid.Uint64().Draw(t, "position")),
			Previous: genHash(t), Time: twophase.Time(rapid.Int64().Draw(t, "time")), Writer: genText(t, "writer"),
			Checkpoint: twophase.Checkpointed{Position: twophase.Position(rapid.Uint64().Draw(t, "checkpoint")), Object: genRef(t)},
		},
		Records: rapid.SliceOfN(rapid.Custom(genRecord), 1, 6).Draw(t, "records"),
	}
}

// TestCodecRoundTrip: what is decoded is what was encoded, and encodes to the same bytes.
func TestCodecRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genEntry(t)
		b := e.Encode()
		got, err := twophase.DecodeEntry(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Fatalf("(-encoded +decoded):\n%s", diff)
		}
		if again := got.Encode(); string(again) != string(b) {
			t.Fatal("the same entry encodes to other bytes")
		}
		if p, err := twophase.EntryPosition(b); err != nil || p != e.Position {
			t.Fatalf("EntryPosition = %d, %v; want %d", p, err, e.Position)
		}
	})
}

// TestDecodeVersions: nothing but decisions on transactions is passed over, and damage is told
// wherever it is.
func TestDecodeVersions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genEntry(t)
		b := e.Encode()
		want := *e
		want.Records = slices.DeleteFunc(slices.Clone(e.Records), func(r twophase.Record) bool {
			switch r.(type) {
			case *twophase.Committed, *twophase.Aborted:
				return true
			}
			return false
		})
		got, err := twophase.DecodeVersions(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Fatalf("(-want +decoded):\n%s", diff)
		}
		bit := rapid.IntRange(0, 8*len(b)-1).Draw(t, "bit")
		b[bit/8] ^= 1 << (bit % 8)
		if _, err := twophase.DecodeVersions(b); !errors.Is(err, twophase.ErrDamaged) {
			t.Fatalf("a flipped bit: %v", err)
		}
	})
}

// TestCodecTellsDamage: an entry of which any bit is another one, or an end is missing,
// is none. The last one of a journal has no successor that would tell.
func TestCodecTellsDamage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := genEntry(t).Encode()
		bit := rapid.IntRange(0, 8*len(b)-1).Draw(t, "bit")
		flipped := slices.Clone(b)
		flipped[bit/8] ^= 1 << (bit % 8)
		cut := b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")]
		for what, damaged := range map[string][]byte{"a flipped bit": flipped, "a missing end": cut} {
			if _, err := twophase.DecodeEntry(damaged); !errors.Is(err, twophase.ErrDamaged) {
				t.Fatalf("%s: %v", what, err)
			}
		}
	})
}

// TestCodecRefusesUnknownFields: a field that this build does not know, in any
// message of the entry, stops the fold (R17).
func TestCodecRefusesUnknownFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m recordpb.Entry
		if err := proto.Unmarshal(genEntry(t).Encode(), &m); err != nil {
			t.Fatal(err)
		}
		all := messages(m.ProtoReflect())
		at := all[rapid.IntRange(0, len(all)-1).Draw(t, "message")]
		at.SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 500, protowire.VarintType), 1))
		if _, err := twophase.DecodeEntry(twophase.Seal(&m)); !errors.Is(err, twophase.ErrUnknownRecord) {
			t.Fatalf("unknown field in %s: %v", at.Descriptor().Name(), err)
		}
	})
}

// messages are a message and all below it.
func messages(m protoreflect.Message) []protoreflect.Message {
	out := []protoreflect.Message{m}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				out = append(out, messages(v.List().Get(i).Message())...)
			}
		default:
			out = append(out, messages(v.Message())...)
		}
		return true
	})
	return out
}

// TestCodecRefusesPartsInNoBundle: a piece that the record says lies in a bundle which it
// does not name could not be found.
func TestCodecRefusesPartsInNoBundle(t *testing.T) {
	c := &twophase.Committed{Txn: twophase.TxnID{1}, Parts: []twophase.Part{{Table: "t", Bundle: 2}}, Bundles: []twophase.BundleID{{1}}}
	if _, err := twophase.DecodeEntry((&twophase.Entry{Records: []twophase.Record{c}}).Encode()); err == nil {
		t.Error("a part in bundle 2 of 1 was read")
	}
	c.Parts[0].Bundle = 1
	if _, err := twophase.DecodeEntry((&twophase.Entry{Records: []twophase.Record{c}}).Encode()); err != nil {
		t.Error(err)
	}
}

// TestCodecRefusesOtherCodecs: an entry of another codec version is not read.
func TestCodecRefusesOtherCodecs(t *testing.T) {
	var m recordpb.Entry
	if err := proto.Unmarshal((&twophase.Entry{Header: twophase.Header{Catalog: "c"}}).Encode(), &m); err != nil {
		t.Fatal(err)
	}
	m.GetHeader().Codec = twophase.CodecVersion + 1
	if _, err := twophase.DecodeEntry(twophase.Seal(&m)); !errors.Is(err, twophase.ErrUnknownRecord) {
		t.Fatalf("other codec: %v", err)
	}
	// One that would let others write in such a codec stops the fold before they do.
	enabled := &twophase.Entry{Records: []twophase.Record{&twophase.BuildEnabled{Codec: twophase.CodecVersion + 1}}}
	if _, err := twophase.DecodeEntry(enabled.Encode()); !errors.Is(err, twophase.ErrUnknownRecord) {
		t.Fatalf("another codec switched on: %v", err)
	}
	// So does a freeze of a cause, or a ground, of later on.
	for _, f := range []*twophase.Frozen{{Table: "a", Cause: twophase.CauseLost + 1}, {Table: "a", Cause: twophase.CauseLost, Ground: twophase.GroundGivenUp + 1}} {
		if _, err := twophase.DecodeEntry((&twophase.Entry{Records: []twophase.Record{f}}).Encode()); !errors.Is(err, twophase.ErrUnknownRecord) {
			t.Fatalf("%+v: %v", f, err)
		}
	}
	// An entry without a record in one of its places is of a kind that we do not know.
	m.GetHeader().Codec = twophase.FirstCodec
	m.Records = []*recordpb.Record{{}}
	if _, err := twophase.DecodeEntry(twophase.Seal(&m)); !errors.Is(err, twophase.ErrUnknownRecord) {
		t.Fatalf("empty record: %v", err)
	}
}

// FuzzDecodeEntry: no bytes make the decoder panic, and what it takes means the same
// after another round.
func FuzzDecodeEntry(f *testing.F) {
	f.Add([]byte{})
	f.Add((&twophase.Entry{Header: twophase.Header{Catalog: "c", Position: 7}, Records: []twophase.Record{
		&twophase.Committed{Txn: twophase.DeriveTxnID("c", "k", 1), Key: "k", Attempt: 1, Parts: []twophase.Part{{Table: "t"}}},
		&twophase.Foreign{Table: "t", Version: 3, Verdicts: []twophase.Verdict{{Change: 1}}},
		&twophase.Range{Table: "t", From: 4, To: 9, Marker: 2},
	}}).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		b = twophase.SealBytes(b) // or hardly any of them would get past the checksum
		var e *twophase.Entry
		var err error
		bounded(t, len(b), func() { e, err = twophase.DecodeEntry(b) })
		if err != nil {
			return
		}
		again, err := twophase.DecodeEntry(e.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, again); diff != "" {
			t.Fatalf("(-first +second):\n%s", diff)
		}
	})
}
