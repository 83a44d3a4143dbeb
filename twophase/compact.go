package twophase

import (
	"encoding/binary"
	"errors"
)

// What the fold remembers of the past, settled outcomes, snapshots and the history of
// tables, is millions of small things of a few kinds. They are written compactly, in
// memory and in checkpoints alike: integers of variable length, one after the other,
// and a number for each string that recurs.

// names numbers strings that recur: ids of tables and of their metadata, kinds of
// snapshots. Numbers are given in the order of the fold, so every replica gives the same
// ones, and none is taken back: there are a few for each table that ever was.
type names struct {
	list []string
	at   map[string]uint64
}

func newNames(list []string) *names {
	n := &names{at: make(map[string]uint64, len(list))}
	for _, name := range list {
		n.at[name] = uint64(len(n.list))
		n.list = append(n.list, name)
	}
	return n
}

func (n *names) number(name string) uint64 {
	i, ok := n.at[name]
	if !ok {
		i = uint64(len(n.list))
		n.list = append(n.list, name)
		n.at[name] = i
	}
	return i
}

// packer appends values to bytes.
type packer struct {
	b     []byte
	names *names
}

func (p *packer) uint(v uint64)    { p.b = binary.AppendUvarint(p.b, v) }
func (p *packer) int(v int64)      { p.b = binary.AppendVarint(p.b, v) }
func (p *packer) count(n int)      { p.uint(uint64(n)) }
func (p *packer) name(name string) { p.uint(p.names.number(name)) }
func (p *packer) raw(b []byte)     { p.b = append(p.b, b...) }

// flags are up to seven bits in one byte.
func (p *packer) flags(bits ...bool) {
	var v uint64
	for i, bit := range bits {
		if bit {
			v |= 1 << i
		}
	}
	p.uint(v)
}

func (p *packer) text(s string) {
	p.count(len(s))
	p.b = append(p.b, s...)
}

func (p *packer) ref(r *ObjectRef) {
	p.text(r.Name)
	p.uint(r.Size)
	p.raw(r.Hash[:])
}

// errCompact: bytes are not what a packer writes.
var errCompact = errors.New("compact bytes do not fit")

// unpacker reads them back. Behind bytes that do not fit it answers zero values, and is
// bad.
type unpacker struct {
	b     []byte
	names *names
	bad   bool
}

func (u *unpacker) uint() (v uint64) {
	for i := range min(len(u.b), binary.MaxVarintLen64) {
		c := u.b[i]
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			u.b = u.b[i+1:]
			return v
		}
	}
	u.fail()
	return 0
}

func (u *unpacker) fail() { u.b, u.bad = nil, true }

func (u *unpacker) int() int64 {
	v := u.uint()
	return int64(v>>1) ^ -int64(v&1)
}

func (u *unpacker) flags(bits ...*bool) {
	v := u.uint()
	for i, bit := range bits {
		*bit = v>>i&1 == 1
	}
}

// count is of things that take at least so many bytes each.
func (u *unpacker) count(least int) int {
	n := u.uint()
	if n > uint64(len(u.b)/least) {
		u.fail()
		return 0
	}
	return int(n)
}

// raw are the next bytes themselves, no copy.
func (u *unpacker) raw(n int) []byte {
	if n > len(u.b) {
		u.fail()
		return nil
	}
	out := u.b[:n:n]
	u.b = u.b[n:]
	return out
}

func (u *unpacker) text() string { return string(u.raw(u.count(1))) }

func (u *unpacker) hash() (h Hash) {
	copy(h[:], u.raw(len(h)))
	return h
}

func (u *unpacker) txn() (id TxnID) {
	copy(id[:], u.raw(len(id)))
	return id
}

func (u *unpacker) name() string {
	i := u.uint()
	if i >= uint64(len(u.names.list)) {
		u.fail()
		return ""
	}
	return u.names.list[i]
}

func (u *unpacker) ref() ObjectRef {
	return ObjectRef{Name: u.text(), Size: u.uint(), Hash: u.hash()}
}

// end reports whether everything fitted, and all was read.
func (u *unpacker) end() error {
	if u.bad || len(u.b) > 0 {
		return errCompact
	}
	return nil
}
