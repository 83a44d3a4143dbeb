package twophase

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/txcoord/txcoord/twophase/recordpb"
)

// FirstCodec is what every journal begins with.
const FirstCodec = 1

// ErrUnknownRecord means that an entry holds a record, or a field anywhere in
// one, that this build does not know. The fold stops there: skipping it would
// give another state (R17). The remedy is a newer build.
var ErrUnknownRecord = errors.New("the journal holds a record that this build does not know")

// ErrDamaged means that the bytes of an entry are not those that were written. The entry
// behind it would tell by its predecessor's hash; the last one has nobody behind it.
var ErrDamaged = errors.New("the bytes of a journal entry are not those that were written")

// Encode is the entry's bytes, the same on every build of one codec version.
func (e *Entry) Encode() []byte {
	m := &recordpb.Entry{Header: headerToPB(&e.Header), Records: make([]*recordpb.Record, len(e.Records))}
	for i, r := range e.Records {
		m.Records[i] = recordToPB(r)
	}
	return seal(mustMarshal(m))
}

// checksumTag stands in front of the checksum; sealSize is the length of both.
const (
	checksumTag = 15<<3 | byte(protowire.Fixed32Type)
	sealSize    = 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal adds the checksum to an entry's bytes.
func seal(b []byte) []byte {
	sum := crc32.Checksum(b, castagnoli)
	return protowire.AppendFixed32(append(b, checksumTag), sum)
}

// checkSeal compares the checksum with the bytes before it.
func checkSeal(b []byte) error {
	n := len(b) - sealSize
	if n < 0 || b[n] != checksumTag || binary.LittleEndian.Uint32(b[n+1:]) != crc32.Checksum(b[:n], castagnoli) {
		return fmt.Errorf("%w: its checksum does not fit", ErrDamaged)
	}
	return nil
}

func mustMarshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		// Only invalid UTF-8 gets here, which intake refuses in every string.
		panic(fmt.Sprintf("twophase: encode %s: %v", m.ProtoReflect().Descriptor().Name(), err))
	}
	return b
}

// DecodeEntry reads what Encode wrote. ErrUnknownRecord for what another build wrote,
// ErrDamaged for what nobody wrote.
func DecodeEntry(b []byte) (*Entry, error) { return decodeEntry(b, 0) }

func decodeEntry(b []byte, weak weakness) (*Entry, error) {
	if err := checkSeal(b); err != nil {
		return nil, err
	}
	return decodeSealed(b, weak)
}

// DecodeVersions is DecodeEntry without decisions on transactions (Committed, Aborted): they
// say nothing of versions, and are nearly all of the journal. Nor does it find out what is
// wrong with those, except that the checksum is that of all bytes.
func DecodeVersions(b []byte) (*Entry, error) {
	if err := checkSeal(b); err != nil {
		return nil, err
	}
	rest := make([]byte, 0, len(b)/4)
	for left := b; len(left) > 0; {
		number, kind, n := protowire.ConsumeTag(left)
		size := protowire.ConsumeFieldValue(number, kind, left[max(n, 0):])
		if n < 0 || size < 0 {
			return nil, fmt.Errorf("decode entry: %w", protowire.ParseError(min(n, size)))
		}
		if !isDecision(number, kind, left[n:]) {
			rest = append(rest, left[:n+size]...)
		}
		left = left[n+size:]
	}
	return decodeSealed(rest, 0)
}

// isDecision reports whether a field of recordpb.Entry is a record of the first two kinds.
func isDecision(number protowire.Number, kind protowire.Type, value []byte) bool {
	if number != 2 || kind != protowire.BytesType {
		return false
	}
	record, _ := protowire.ConsumeBytes(value)
	what, _, _ := protowire.ConsumeTag(record)
	return what == 1 || what == 2
}

func decodeSealed(b []byte, weak weakness) (*Entry, error) {
	var m recordpb.Entry
	if err := proto.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("decode entry: %w", err)
	}
	if field := unknownField(&m, b); field != "" && !weak.has(weakSkipUnknown) {
		return nil, fmt.Errorf("%w: unknown field in %s at position %d", ErrUnknownRecord, field, m.GetHeader().GetPosition())
	}
	if err := knownCodec(m.GetHeader().GetCodec()); err != nil {
		return nil, err
	}
	e := &Entry{Header: headerFromPB(m.GetHeader()), Records: make([]Record, 0, len(m.GetRecords()))}
	for i, r := range m.GetRecords() {
		rec, err := recordFromPB(r)
		if err != nil && weak.has(weakSkipUnknown) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d, record %d: %w", e.Position, i, err)
		}
		e.Records = append(e.Records, rec)
	}
	return e, nil
}

// knownCodec refuses what a newer build wrote, or is allowed to write from now on.
func knownCodec(c uint32) error {
	if c < FirstCodec || c > CodecVersion {
		return fmt.Errorf("%w: it is written in codec %d, and this build knows those up to %d", ErrUnknownRecord, c, CodecVersion)
	}
	return nil
}

// recordSize is the record's share of an entry's bytes.
func recordSize(r Record) int { return proto.Size(recordToPB(r)) + 8 }

func headerToPB(h *Header) *recordpb.Header {
	return &recordpb.Header{
		Codec: max(h.Codec, FirstCodec), Catalog: h.Catalog, Incarnation: h.Incarnation, Position: uint64(h.Position),
		Previous: hashToPB(h.Previous), TimeMs: int64(h.Time), Writer: h.Writer, Checkpoint: checkpointedToPB(&h.Checkpoint),
	}
}

func headerFromPB(m *recordpb.Header) Header {
	return Header{
		Codec: m.GetCodec(), Catalog: m.GetCatalog(), Incarnation: m.GetIncarnation(), Position: Position(m.GetPosition()),
		Previous: hashFromPB(m.GetPrevious()), Time: Time(m.GetTimeMs()), Writer: m.GetWriter(),
		Checkpoint: checkpointedFromPB(m.GetCheckpoint()),
	}
}

func recordToPB(r Record) *recordpb.Record {
	switch r := r.(type) {
	case *Committed:
		return &recordpb.Record{Record: &recordpb.Record_Commit{Commit: committedToPB(r)}}
	case *Aborted:
		return &recordpb.Record{Record: &recordpb.Record_Abort{Abort: abortedToPB(r)}}
	case *Published:
		return &recordpb.Record{Record: &recordpb.Record_Publication{Publication: publishedToPB(r)}}
	case *Foreign:
		return &recordpb.Record{Record: &recordpb.Record_Foreign{Foreign: foreignToPB(r)}}
	case *Barrier:
		return &recordpb.Record{Record: &recordpb.Record_Barrier{Barrier: &recordpb.Barrier{
			Table: string(r.Table), Version: int64(r.Version), Identity: hashToPB(r.Identity),
			Found: mapTo(r.Found, foundToPB), NotApplied: mapTo(r.NotApplied, txnToPB), Verdicts: mapTo(r.Verdicts, verdictToPB),
		}}}
	case *Range:
		return &recordpb.Record{Record: &recordpb.Record_Range{Range: &recordpb.Range{
			Table: string(r.Table), From: int64(r.From), To: int64(r.To), Identity: hashToPB(r.Identity),
			Marker: int64(r.Marker), MetadataId: r.MetaDataID, Verdicts: mapTo(r.Verdicts, verdictToPB),
		}}}
	case *Replaced:
		return &recordpb.Record{Record: &recordpb.Record_Replaced{Replaced: &recordpb.Replaced{
			Table: string(r.Table), Recorded: int64(r.Recorded), Detail: r.Detail, GivenUp: r.GivenUp,
		}}}
	case *Registered:
		return &recordpb.Record{Record: &recordpb.Record_Register{Register: registeredToPB(r)}}
	case *Created:
		return &recordpb.Record{Record: &recordpb.Record_Create{Create: registeredToPB(&r.Registered)}}
	case *Released:
		return &recordpb.Record{Record: &recordpb.Record_Release{Release: &recordpb.Released{Table: string(r.Table)}}}
	case *ModeSet:
		return &recordpb.Record{Record: &recordpb.Record_Mode{Mode: &recordpb.ModeSet{Table: string(r.Table), Mode: uint32(r.Mode)}}}
	case *Frozen:
		return &recordpb.Record{Record: &recordpb.Record_Freeze{Freeze: frozenToPB(r)}}
	case *Held:
		return &recordpb.Record{Record: &recordpb.Record_Hold{Hold: &recordpb.Held{Table: string(r.Table), Off: r.Off, Detail: r.Detail}}}
	case *Thawed:
		return &recordpb.Record{Record: &recordpb.Record_Thaw{Thaw: &recordpb.Thawed{Table: string(r.Table), Detail: r.Detail, Mended: r.Mended}}}
	case *FloorRaised:
		return &recordpb.Record{Record: &recordpb.Record_Floor{Floor: &recordpb.FloorRaised{Floor: uint64(r.Floor)}}}
	case *SettingChanged:
		return &recordpb.Record{Record: &recordpb.Record_Setting{Setting: capsToPB(&r.Caps)}}
	case *Checkpointed:
		return &recordpb.Record{Record: &recordpb.Record_Checkpoint{Checkpoint: checkpointedToPB(r)}}
	case *Tagged:
		return &recordpb.Record{Record: &recordpb.Record_Tag{Tag: &recordpb.Tagged{Name: r.Name, Snapshot: uint64(r.Snapshot)}}}
	case *FenceCounted:
		return &recordpb.Record{Record: &recordpb.Record_Fence{Fence: &recordpb.FenceCounted{
			Table: string(r.Table), Version: int64(r.Version), Operator: r.Operator,
		}}}
	case *Leased:
		return &recordpb.Record{Record: &recordpb.Record_Lease{Lease: &recordpb.Leased{
			Id: r.ID, Snapshot: uint64(r.Snapshot), TtlMs: r.TTL.Milliseconds(), Note: r.Note, Renew: r.Renew,
		}}}
	case *LeaseEnded:
		return &recordpb.Record{Record: &recordpb.Record_LeaseEnd{LeaseEnd: &recordpb.LeaseEnded{Id: r.ID, UntilMs: int64(r.Until)}}}
	case *LogCut:
		return &recordpb.Record{Record: &recordpb.Record_LogCut{LogCut: &recordpb.LogCut{
			Table: string(r.Table), Cut: int64(r.Cut), Seen: uint64(r.Seen), Snapshot: uint64(r.Snapshot),
		}}}
	case *Reserved:
		return &recordpb.Record{Record: &recordpb.Record_Reserve{Reserve: reservedToPB(r)}}
	case *ReservationEnded:
		return &recordpb.Record{Record: &recordpb.Record_ReserveEnd{ReserveEnd: &recordpb.ReservationEnded{Key: r.Key, From: uint64(r.From)}}}
	case *Turned:
		return &recordpb.Record{Record: &recordpb.Record_Turn{Turn: &recordpb.Turned{}}}
	case *Moved:
		return &recordpb.Record{Record: &recordpb.Record_Moved{Moved: &recordpb.Moved{To: r.To}}}
	case *Arrived:
		return &recordpb.Record{Record: &recordpb.Record_Arrived{Arrived: &recordpb.Arrived{From: r.From}}}
	case *Rebuilt:
		return &recordpb.Record{Record: &recordpb.Record_Rebuilt{Rebuilt: rebuiltToPB(r)}}
	case *BuildEnabled:
		return &recordpb.Record{Record: &recordpb.Record_Build{Build: &recordpb.BuildEnabled{Codec: r.Codec}}}
	}
	panic(fmt.Sprintf("twophase: no encoding for %T", r))
}

func recordFromPB(m *recordpb.Record) (Record, error) {
	switch r := m.GetRecord().(type) {
	case *recordpb.Record_Commit:
		return committedFromPB(r.Commit)
	case *recordpb.Record_Abort:
		return abortedFromPB(r.Abort), nil
	case *recordpb.Record_Publication:
		return &Published{Round: roundIDFromPB(r.Publication.GetRound()), Tables: mapTo(r.Publication.GetTables(), publishedTableFromPB)}, nil
	case *recordpb.Record_Foreign:
		return foreignFromPB(r.Foreign), nil
	case *recordpb.Record_Barrier:
		b := r.Barrier
		return &Barrier{
			Table: TableID(b.GetTable()), Version: Version(b.GetVersion()), Identity: hashFromPB(b.GetIdentity()),
			Found: mapTo(b.GetFound(), foundFromPB), NotApplied: mapTo(b.GetNotApplied(), txnFromPB),
			Verdicts: mapTo(b.GetVerdicts(), verdictFromPB),
		}, nil
	case *recordpb.Record_Range:
		g := r.Range
		return &Range{
			Table: TableID(g.GetTable()), From: Version(g.GetFrom()), To: Version(g.GetTo()), Identity: hashFromPB(g.GetIdentity()),
			Marker: ChangeNumber(g.GetMarker()), MetaDataID: g.GetMetadataId(), Verdicts: mapTo(g.GetVerdicts(), verdictFromPB),
		}, nil
	case *recordpb.Record_Replaced:
		p := r.Replaced
		return &Replaced{Table: TableID(p.GetTable()), Recorded: Version(p.GetRecorded()), Detail: p.GetDetail(), GivenUp: p.GetGivenUp()}, nil
	case *recordpb.Record_Register:
		return registeredFromPB(r.Register), nil
	case *recordpb.Record_Create:
		return &Created{*registeredFromPB(r.Create)}, nil
	case *recordpb.Record_Release:
		return &Released{Table: TableID(r.Release.GetTable())}, nil
	case *recordpb.Record_Mode:
		return &ModeSet{Table: TableID(r.Mode.GetTable()), Mode: Mode(r.Mode.GetMode())}, nil
	case *recordpb.Record_Freeze:
		return frozenFromPB(r.Freeze)
	case *recordpb.Record_Hold:
		return &Held{Table: TableID(r.Hold.GetTable()), Off: r.Hold.GetOff(), Detail: r.Hold.GetDetail()}, nil
	case *recordpb.Record_Thaw:
		return &Thawed{Table: TableID(r.Thaw.GetTable()), Detail: r.Thaw.GetDetail(), Mended: r.Thaw.GetMended()}, nil
	case *recordpb.Record_Floor:
		return &FloorRaised{Floor: Position(r.Floor.GetFloor())}, nil
	case *recordpb.Record_Setting:
		return &SettingChanged{Caps: capsFromPB(r.Setting)}, nil
	case *recordpb.Record_Checkpoint:
		c := checkpointedFromPB(r.Checkpoint)
		return &c, nil
	case *recordpb.Record_Tag:
		return &Tagged{Name: r.Tag.GetName(), Snapshot: SnapshotVersion(r.Tag.GetSnapshot())}, nil
	case *recordpb.Record_Fence:
		return &FenceCounted{Table: TableID(r.Fence.GetTable()), Version: Version(r.Fence.GetVersion()), Operator: r.Fence.GetOperator()}, nil
	case *recordpb.Record_Lease:
		l := r.Lease
		return &Leased{
			ID: l.GetId(), Snapshot: SnapshotVersion(l.GetSnapshot()), TTL: time.Duration(l.GetTtlMs()) * time.Millisecond,
			Note: l.GetNote(), Renew: l.GetRenew(),
		}, nil
	case *recordpb.Record_LeaseEnd:
		return &LeaseEnded{ID: r.LeaseEnd.GetId(), Until: Time(r.LeaseEnd.GetUntilMs())}, nil
	case *recordpb.Record_LogCut:
		c := r.LogCut
		return &LogCut{Table: TableID(c.GetTable()), Cut: Version(c.GetCut()), Seen: Position(c.GetSeen()), Snapshot: SnapshotVersion(c.GetSnapshot())}, nil
	case *recordpb.Record_Reserve:
		return reservedFromPB(r.Reserve), nil
	case *recordpb.Record_ReserveEnd:
		return &ReservationEnded{Key: r.ReserveEnd.GetKey(), From: Position(r.ReserveEnd.GetFrom())}, nil
	case *recordpb.Record_Turn:
		return &Turned{}, nil
	case *recordpb.Record_Moved:
		return &Moved{To: r.Moved.GetTo()}, nil
	case *recordpb.Record_Arrived:
		return &Arrived{From: r.Arrived.GetFrom()}, nil
	case *recordpb.Record_Rebuilt:
		return rebuiltFromPB(r.Rebuilt), nil
	case *recordpb.Record_Build:
		return &BuildEnabled{Codec: r.Build.GetCodec()}, knownCodec(r.Build.GetCodec())
	}
	return nil, ErrUnknownRecord
}

// CheckEntry is ErrDamaged if the bytes do not fit their checksum, which the entries of
// every build have.
func CheckEntry(b []byte) error { return checkSeal(b) }

// EntryPosition reads the position of an entry without its records and without a look
// at its checksum, also of one that another build wrote. ErrDamaged if it has none.
func EntryPosition(b []byte) (Position, error) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			break
		}
		b = b[n:]
		if num == 1 && typ == protowire.BytesType {
			header, n := protowire.ConsumeBytes(b)
			var h recordpb.Header
			if n < 0 || proto.Unmarshal(header, &h) != nil || h.GetCatalog() == "" {
				break
			}
			return Position(h.GetPosition()), nil
		}
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			break
		}
		b = b[n:]
	}
	return 0, fmt.Errorf("%w: it has no header", ErrDamaged)
}
