package twophase

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/txcoord/txcoord/twophase/recordpb"
)

// Build 2 of the simulator knows a kind of record that build 1 does not (R17): a
// tag whose name begins with newKind stands in a field of its own.
const (
	newKind      = "v2:"
	newKindField = 99
)

func encodeAs(e *Entry, builds bool) []byte {
	b := e.Encode()
	if !builds {
		return b
	}
	var m recordpb.Entry
	if err := proto.Unmarshal(b, &m); err != nil {
		panic(err)
	}
	for _, r := range m.GetRecords() {
		if tag := r.GetTag(); strings.HasPrefix(tag.GetName(), newKind) {
			raw := protowire.AppendTag(nil, newKindField, protowire.BytesType)
			raw = protowire.AppendBytes(raw, mustMarshal(tag))
			r.Record = nil
			r.ProtoReflect().SetUnknown(raw)
		}
	}
	return Seal(&m)
}

func decodeAs(b []byte, build int, weak weakness) (*Entry, error) {
	e, err := decodeEntry(b, weak&^weakSkipUnknown)
	if err == nil {
		return e, nil
	}
	if build == 1 {
		return decodeEntry(b, weak)
	}
	var m recordpb.Entry
	if err := proto.Unmarshal(b, &m); err != nil {
		return nil, err
	}
	for _, r := range m.GetRecords() {
		if raw := r.ProtoReflect().GetUnknown(); len(raw) > 0 {
			_, _, n := protowire.ConsumeTag(raw)
			inner, _ := protowire.ConsumeBytes(raw[n:])
			tag := &recordpb.Tagged{}
			if err := proto.Unmarshal(inner, tag); err != nil {
				return nil, err
			}
			r.ProtoReflect().SetUnknown(nil)
			r.Record = &recordpb.Record_Tag{Tag: tag}
		}
	}
	return decodeEntry(Seal(&m), weak)
}
