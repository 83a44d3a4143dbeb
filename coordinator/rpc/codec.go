package rpc

import (
	"strconv"
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that is wrapped here
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// codec lets a message through that cannot be decoded, empty and with a mark, so that
// the call is answered as the mistake that it is: gRPC itself would call it INTERNAL.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// undecoded is the number of the mark's field, the highest that there is.
const undecoded protowire.Number = 1<<29 - 1

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	err := c.CodecV2.Unmarshal(data, v)
	m, ok := v.(proto.Message)
	if err == nil || !ok {
		return err
	}
	field := notUTF8(m.ProtoReflect().Descriptor(), data.Materialize())
	proto.Reset(m)
	mark := protowire.AppendTag(nil, undecoded, protowire.BytesType)
	m.ProtoReflect().SetUnknown(protowire.AppendString(mark, field))
	return nil
}

// decoded is the refusal of a message that could not be decoded.
func decoded(m proto.Message) error {
	unknown := m.ProtoReflect().GetUnknown()
	number, _, n := protowire.ConsumeTag(unknown)
	if n < 0 || number != undecoded {
		return nil
	}
	field, n := protowire.ConsumeString(unknown[n:])
	if n < 0 || field == "" {
		return refuse("request", "", "it is no message of the contract; encode it with the contract's own types")
	}
	return refuse(field, "", "it is not valid UTF-8; send text in UTF-8")
}

// notUTF8 is the path of the first text in a message that is not valid UTF-8, as errors
// name fields; empty if the message is broken otherwise.
func notUTF8(d protoreflect.MessageDescriptor, b []byte) string {
	seen := map[protowire.Number]int{}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return ""
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return ""
		}
		value := b[:n]
		b = b[n:]
		f := d.Fields().ByNumber(number)
		if f == nil || kind != protowire.BytesType {
			continue
		}
		text, _ := protowire.ConsumeBytes(value)
		name := string(f.Name())
		if f.IsList() {
			name += "[" + strconv.Itoa(seen[number]) + "]"
		}
		seen[number]++
		switch {
		case f.Kind() == protoreflect.StringKind && !utf8.Valid(text):
			return name
		case f.Kind() == protoreflect.MessageKind:
			if below := notUTF8(f.Message(), text); below != "" {
				return name + "." + below
			}
		}
	}
	return ""
}
