package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/txcoord/txcoord/internal/nearest"
	"github.com/txcoord/txcoord/tables"
)

// decodeStrict reads a JSON file of the user's. What encoding/json lets pass would change
// what is asked for: a member twice (the second list is decoded into the first one's
// entries), a name in another case, bytes that are no text, half a surrogate pair.
func decodeStrict(name string, b []byte, v any) error {
	if err := tables.CheckJSON(b); err != nil {
		return usage(name+at(b, nil, err), "", err.Error())
	}
	// Values first: an error there says more than one of a name further down.
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(v); err != nil {
		return usage(name+at(b, d, err), "", jsonText(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return usage(name+lineAt(b, d.InputOffset()), "", "something stands behind the end of the transaction")
	}
	exact := json.NewDecoder(bytes.NewReader(b))
	if err := exactNames(exact, reflect.TypeOf(v)); err != nil {
		return usage(name+lineAt(b, exact.InputOffset()), "", err.Error())
	}
	return nil
}

// exactNames passes over the next value, which was decoded into a t, and errs at the
// first member that no field of its struct is called by, to the letter.
func exactNames(d *json.Decoder, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	inner := t.Kind() == reflect.Struct || t.Kind() == reflect.Map || t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8
	if !inner {
		var rest json.RawMessage
		return d.Decode(&rest)
	}
	open, err := d.Token()
	if err != nil || open == nil { // null
		return err
	}
	for d.More() {
		next := t
		switch t.Kind() {
		case reflect.Struct:
			next, err = fieldOf(d, t)
		case reflect.Map:
			_, err = d.Token()
			next = t.Elem()
		default:
			next = t.Elem()
		}
		if err != nil {
			return err
		}
		if err := exactNames(d, next); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// fieldOf reads a member's name, and finds the type of the field of that name.
func fieldOf(d *json.Decoder, t reflect.Type) (reflect.Type, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	name, _ := token.(string)
	for _, f := range reflect.VisibleFields(t) {
		if f.Tag.Get("json") == name && name != "" {
			return f.Type, nil
		}
	}
	return nil, fmt.Errorf("unknown field %q%s", name, nearest.Meant(name, members))
}

// jsonText is a decoder's error in words of JSON.
func jsonText(err error) string {
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF):
		return "it is empty"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it ends in the middle of the transaction"
	case errors.As(err, &kind):
		return fmt.Sprintf("%s is a JSON %s, and has to be %s", or(kind.Field, "the transaction"), kind.Value, jsonKind(kind.Type))
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonKind(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	default:
		return "a whole number in range"
	}
}

// at says where in the file the decoder stopped.
func at(b []byte, d *json.Decoder, err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var place interface{ Offset() int64 }
	switch {
	case errors.As(err, &place):
		return lineAt(b, place.Offset())
	case d == nil:
		return ""
	case errors.As(err, &syntax):
		return lineAt(b, syntax.Offset)
	case errors.As(err, &kind):
		return lineAt(b, kind.Offset)
	}
	return lineAt(b, d.InputOffset())
}

func lineAt(b []byte, offset int64) string {
	return fmt.Sprintf(": line %d", 1+bytes.Count(b[:min(int(offset), len(b))], []byte("\n")))
}
