package twophase

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/txcoord/txcoord/twophase/recordpb"
)

// Fields that this build does not know stop a fold (R17). To look for them in decoded
// messages takes reflection over each, as long as decoding; in their bytes it takes a
// glance at each field.

// shape is what a build knows of a message.
type shape struct {
	name   string
	fields []fieldShape // by number
}

type fieldShape struct {
	known bool
	typ   protowire.Type
	// packs: the field may come as a list of its values, in one.
	packs   bool
	message *shape
}

// unknownField names the first message in the bytes that a message was decoded from which
// carries a field that this build does not know.
func unknownField(m proto.Message, b []byte) string {
	return shapes[m.ProtoReflect().Descriptor().FullName()].unknown(b)
}

// shapes are those of the messages that are decoded, and of those in them.
var shapes = shapesOf(&recordpb.Entry{}, &recordpb.CheckpointIndex{}, &recordpb.Segment{})

func shapesOf(messages ...proto.Message) map[protoreflect.FullName]*shape {
	all := map[protoreflect.FullName]*shape{}
	for _, m := range messages {
		addShape(all, m.ProtoReflect().Descriptor())
	}
	return all
}

func addShape(all map[protoreflect.FullName]*shape, d protoreflect.MessageDescriptor) *shape {
	if s := all[d.FullName()]; s != nil {
		return s
	}
	s := &shape{name: string(d.Name())}
	all[d.FullName()] = s // before its fields: messages may hold their like
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		for len(s.fields) <= int(fd.Number()) {
			s.fields = append(s.fields, fieldShape{})
		}
		f := fieldShape{known: true, typ: wireTypes[fd.Kind()]}
		f.packs = fd.IsList() && f.typ != protowire.BytesType
		if fd.Message() != nil {
			f.message = addShape(all, fd.Message())
		}
		s.fields[fd.Number()] = f
	}
	return s
}

// wireTypes are those of the kinds that are not varints.
var wireTypes = map[protoreflect.Kind]protowire.Type{
	protoreflect.StringKind: protowire.BytesType, protoreflect.BytesKind: protowire.BytesType, protoreflect.MessageKind: protowire.BytesType,
	protoreflect.Fixed32Kind: protowire.Fixed32Type, protoreflect.Sfixed32Kind: protowire.Fixed32Type, protoreflect.FloatKind: protowire.Fixed32Type,
	protoreflect.Fixed64Kind: protowire.Fixed64Type, protoreflect.Sfixed64Kind: protowire.Fixed64Type, protoreflect.DoubleKind: protowire.Fixed64Type,
}

// unknown goes through the bytes of a message, which were decoded before: they are whole.
func (s *shape) unknown(b []byte) string {
	for len(b) > 0 {
		number, typ, n := protowire.ConsumeTag(b)
		size := protowire.ConsumeFieldValue(number, typ, b[max(n, 0):])
		if n < 0 || size < 0 || int(number) >= len(s.fields) {
			return s.name
		}
		f := &s.fields[number]
		if !f.known || typ != f.typ && !(f.packs && typ == protowire.BytesType) {
			return s.name
		}
		if f.message != nil {
			inner, _ := protowire.ConsumeBytes(b[n:])
			if found := f.message.unknown(inner); found != "" {
				return found
			}
		}
		b = b[n+size:]
	}
	return ""
}
