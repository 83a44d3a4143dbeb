package datafile

import (
	encoding "encoding/binary"
	"errors"
)

// thriftWalk passes over a structure in Thrift's compact form, which a footer is, and
// keeps nothing of it.
type thriftWalk struct {
	b []byte
	i int
}

var errFooter = errors.New("the footer is damaged: it states more than it holds")

// The types of the compact form.
const (
	thriftStop = iota
	thriftTrue
	thriftFalse
	thriftByte
	thriftI16
	thriftI32
	thriftI64
	thriftDouble
	thriftBinary
	thriftList
	thriftSet
	thriftMap
	thriftStruct
	thriftUUID
)

const thriftDepth = 64

func (w *thriftWalk) structure(depth int) error {
	if depth > thriftDepth {
		return errFooter
	}
	for {
		header, err := w.byte()
		if err != nil || header&0xf == thriftStop {
			return err
		}
		if header>>4 == 0 { // the field's number follows
			if _, err := w.varint(); err != nil {
				return err
			}
		}
		if t := header & 0xf; t != thriftTrue && t != thriftFalse { // which are the value
			if err := w.value(t, depth+1); err != nil {
				return err
			}
		}
	}
}

func (w *thriftWalk) value(t byte, depth int) error {
	switch t {
	case thriftTrue, thriftFalse, thriftByte: // in a list, truth takes a byte
		return w.skip(1)
	case thriftI16, thriftI32, thriftI64:
		_, err := w.varint()
		return err
	case thriftDouble:
		return w.skip(8)
	case thriftUUID:
		return w.skip(16)
	case thriftBinary:
		n, err := w.varint()
		if err != nil {
			return err
		}
		return w.skip(n)
	case thriftList, thriftSet:
		return w.list(depth)
	case thriftMap:
		return w.mapping(depth)
	case thriftStruct:
		return w.structure(depth)
	}
	return errFooter
}

func (w *thriftWalk) list(depth int) error {
	header, err := w.byte()
	if err != nil {
		return err
	}
	n := uint64(header >> 4)
	if n == 0xf {
		if n, err = w.varint(); err != nil {
			return err
		}
	}
	return w.elements(n, depth, header&0xf)
}

func (w *thriftWalk) mapping(depth int) error {
	n, err := w.varint()
	if err != nil || n == 0 {
		return err
	}
	types, err := w.byte()
	if err != nil {
		return err
	}
	return w.elements(n, depth, types>>4, types&0xf)
}

// elements takes at least a byte for each.
func (w *thriftWalk) elements(n uint64, depth int, types ...byte) error {
	if depth > thriftDepth || n > uint64(len(w.b)-w.i) {
		return errFooter
	}
	for range n {
		for _, t := range types {
			if err := w.value(t, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *thriftWalk) byte() (byte, error) {
	if w.i >= len(w.b) {
		return 0, errFooter
	}
	w.i++
	return w.b[w.i-1], nil
}

func (w *thriftWalk) varint() (uint64, error) {
	v, n := encoding.Uvarint(w.b[w.i:])
	if n <= 0 {
		return 0, errFooter
	}
	w.i += n
	return v, nil
}

func (w *thriftWalk) skip(n uint64) error {
	if n > uint64(len(w.b)-w.i) {
		return errFooter
	}
	w.i += int(n)
	return nil
}
