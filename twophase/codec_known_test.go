package twophase

import (
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/txcoord/txcoord/twophase/recordpb"
)

// TestUnknownFields holds the look at bytes against reflection over what was decoded: of
// each message, with its fields and without, bytes are changed at random.
func TestUnknownFields(t *testing.T) {
	dice := rand.New(rand.NewPCG(7, 11))
	found, fine := 0, 0
	for range 400 {
		for _, m := range []proto.Message{&recordpb.Entry{}, &recordpb.Segment{}, &recordpb.CheckpointIndex{}} {
			fill(dice, m.ProtoReflect(), 5)
			b, err := proto.MarshalOptions{AllowPartial: true}.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 50 {
				changed := append([]byte(nil), b...)
				if i > 0 && len(b) > 0 {
					changed[dice.IntN(len(b))] = byte(dice.Uint32())
				}
				read := m.ProtoReflect().New().Interface()
				if proto.Unmarshal(changed, read) != nil {
					continue
				}
				got, want := unknownField(read, changed), reflected(read.ProtoReflect())
				if (got == "") != (want == "") {
					t.Fatalf("%x: in %q by its bytes, in %q by reflection", changed, got, want)
				}
				if got == "" {
					fine++
				} else {
					found++
				}
			}
		}
	}
	if found < 1000 || fine < 1000 {
		t.Errorf("%d messages with unknown fields and %d without: too few of a kind to compare", found, fine)
	}
}

// reflected names the first message with a field that is not known.
func reflected(m protoreflect.Message) string {
	if len(m.GetUnknown()) > 0 {
		return string(m.Descriptor().Name())
	}
	found := ""
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Message() == nil:
		case fd.IsList():
			for i := 0; i < v.List().Len() && found == ""; i++ {
				found = reflected(v.List().Get(i).Message())
			}
		default:
			found = reflected(v.Message())
		}
		return found == ""
	})
	return found
}

// fill sets some of the fields of a message, and of those in it.
func fill(dice *rand.Rand, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if dice.IntN(3) == 0 || fd.Message() != nil && depth == 0 {
			continue
		}
		switch {
		case fd.IsList() && fd.Message() != nil:
			fill(dice, m.Mutable(fd).List().AppendMutable().Message(), depth-1)
		case fd.IsList():
			m.Mutable(fd).List().Append(someValue(dice, fd))
		case fd.Message() != nil:
			fill(dice, m.Mutable(fd).Message(), depth-1)
		default:
			m.Set(fd, someValue(dice, fd))
		}
	}
}

func someValue(dice *rand.Rand, fd protoreflect.FieldDescriptor) protoreflect.Value {
	n := dice.Uint64()
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("text")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte("bytes"))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind:
		return protoreflect.ValueOfInt64(int64(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	default:
		return protoreflect.ValueOfUint64(n)
	}
}
