package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The JSON that -o json prints follows the wire contract field by field, in its
// order, with names in lowerCamelCase, 64-bit integers as numbers, enum values as
// short lower-case words, times in RFC 3339, durations as Go writes them. Fields of
// plain types are always there; messages that are unset are left out. (protojson
// writes 64-bit integers as strings, and its layout is not stable.)

// field is one member of an object, object an object in order.
type field struct {
	name  string
	value any
}

type object []field

// MarshalJSON keeps the order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := marshal(f.name)
		if err != nil {
			return nil, err
		}
		value, err := marshal(f.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// marshal is json.Marshal that leaves <, > and & alone.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// messageJSON turns a message into something that marshals as said above.
func messageJSON(m protoreflect.Message) any {
	switch v := m.Interface().(type) {
	case *timestamppb.Timestamp:
		return v.AsTime().Format(time.RFC3339Nano)
	case *durationpb.Duration:
		return v.AsDuration().String()
	}
	out := object{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.HasPresence() && !m.Has(f) {
			continue
		}
		out = append(out, field{f.JSONName(), fieldJSON(f, m.Get(f))})
	}
	return out
}

func fieldJSON(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case f.IsMap():
		out := map[string]any{} // encoding/json sorts the keys
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			out[k.String()] = scalarJSON(f.MapValue(), v)
			return true
		})
		return out
	case f.IsList():
		out := make([]any, v.List().Len())
		for i := range out {
			out[i] = scalarJSON(f, v.List().Get(i))
		}
		return out
	default:
		return scalarJSON(f, v)
	}
}

func scalarJSON(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return messageJSON(v.Message())
	case protoreflect.EnumKind:
		return enumWord(f.Enum(), v.Enum())
	case protoreflect.BytesKind:
		return base64.StdEncoding.EncodeToString(v.Bytes())
	default:
		return v.Interface()
	}
}

// enumWord is RULE_DELETE_READ as "delete_read", and the unspecified value as "".
func enumWord(e protoreflect.EnumDescriptor, n protoreflect.EnumNumber) string {
	if n == 0 {
		return ""
	}
	v := e.Values().ByNumber(n)
	if v == nil {
		return strconv.Itoa(int(n))
	}
	zero := string(e.Values().ByNumber(0).Name())
	return strings.ToLower(strings.TrimPrefix(string(v.Name()), strings.TrimSuffix(zero, "UNSPECIFIED")))
}

// word is enumWord of a generated value.
func word[E protoreflect.Enum](e E) string { return enumWord(e.Descriptor(), e.Number()) }

// detailText is a message for people: its fields that are set, one a line.
func detailText(m proto.Message) string {
	var lines []string
	r := m.ProtoReflect()
	fields := r.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		// A version of 0 is one; -1 stands for none.
		if isVersion := f.Name() == "version"; isVersion && r.Get(f).Int() < 0 || !isVersion && !r.Has(f) {
			continue
		}
		b, err := marshal(fieldJSON(f, r.Get(f)))
		if err != nil {
			continue
		}
		text := string(b)
		if s, err := strconv.Unquote(text); err == nil {
			text = s
		}
		lines = append(lines, strings.ReplaceAll(string(f.Name()), "_", " ")+": "+text)
	}
	return strings.Join(lines, "\n")
}
