// Package manifest is the files by which a reader takes a consistent cut from object
// storage alone (R18). docs/manifest.md describes them for those who read them without us.
//
// A file holds a range of snapshots and is named by the first of them; the next one
// begins where it ends. So the name under which a replica may go on follows from what is
// durable, and a put that is refused means that another replica has gone on from the same
// place: there is one chain, without holes and without overlaps, however replicas divide
// it, and whoever stops behind its end finds the next name taken.
//
// What a snapshot's delta says is a pure function of its record. Which snapshots share a
// file is not: it is what had been closed when the file before was durable.
package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/txcoord/txcoord/twophase"
)

// Format is the version of the files. 1 had one snapshot in a file, and was never released.
const Format = 2

// Head says whose a file is.
type Head struct {
	Format      int    `json:"format"`
	Catalog     string `json:"catalog"`
	Incarnation string `json:"incarnation"`
	// Full: the one snapshot in the file lists all tables (a .checkpoint.json).
	Full bool `json:"full,omitempty"`
}

// HeadOf is that of the deltas of a catalog's life.
func HeadOf(catalog, incarnation string) Head {
	return Head{Format: Format, Catalog: catalog, Incarnation: incarnation}
}

// Delta is what one snapshot changed; in a full file, all tables.
type Delta struct {
	Snapshot     twophase.SnapshotVersion `json:"snapshot"`
	Timestamp    twophase.Time            `json:"timestamp"`
	Kind         string                   `json:"kind"`
	Transactions []string                 `json:"transactions"`
	Tables       []Table                  `json:"tables"`
	Removed      []string                 `json:"removed,omitempty"`

	raw json.RawMessage
}

// Table is a table at a version.
type Table struct {
	ID      twophase.TableID `json:"id"`
	Name    string           `json:"name"`
	URI     string           `json:"uri"`
	Version twophase.Version `json:"version"`
}

// File is a file. It holds at least one snapshot, and no hole.
type File struct {
	Head
	Deltas []Delta
}

// First is the file's name.
func (f *File) First() twophase.SnapshotVersion { return f.Deltas[0].Snapshot }

// Last is where the next file goes on.
func (f *File) Last() twophase.SnapshotVersion { return f.Deltas[len(f.Deltas)-1].Snapshot }

// Raw is the delta as it stands in its file.
func (d *Delta) Raw() []byte { return d.raw }

// Encode renders a delta, always in the same way.
func (d *Delta) Encode() ([]byte, error) {
	if d.raw != nil {
		return d.raw, nil
	}
	raw, err := json.Marshal(d)
	d.raw = raw
	return raw, err
}

// Pack makes a file of the first of some deltas, and of as many behind it as keep the
// deltas within a number of bytes. More are not asked for.
func Pack(h Head, deltas iter.Seq[Delta], most int) (*File, error) {
	f := &File{Head: h}
	for d := range deltas {
		raw, err := d.Encode()
		if err != nil {
			return nil, fmt.Errorf("encode what snapshot %d changed: %w", d.Snapshot, err)
		}
		if most -= len(raw); most < 0 && len(f.Deltas) > 0 {
			break
		}
		f.Deltas = append(f.Deltas, d)
	}
	if len(f.Deltas) == 0 {
		return nil, errors.New("a manifest without a snapshot")
	}
	return f, nil
}

// Encode renders a file, each snapshot on a line of its own.
func (f *File) Encode() ([]byte, error) {
	head, err := json.Marshal(f.Head)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Write(head[:len(head)-1])
	b.WriteString(`,"snapshots":[`)
	for i := range f.Deltas {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		raw, err := f.Deltas[i].Encode()
		if err != nil {
			return nil, err
		}
		b.Write(raw)
	}
	b.WriteString("\n]}\n")
	return b.Bytes(), nil
}

// Decode reads the file of a name. Fields that it does not know are left alone.
func Decode(n Name, b []byte) (*File, error) {
	f, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("manifest %s cannot be read (stop the servers and remove the file: it is written again as long as it is the newest and the journal holds its snapshots): %w: %w", n, ErrDamaged, err)
	}
	if f.Format != Format {
		return nil, fmt.Errorf("manifest %s has format %d, this build knows %d", n, f.Format, Format)
	}
	if err := n.fits(f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return f, nil
}

// ErrDamaged: the bytes under a manifest's name are not those of one.
var ErrDamaged = errors.New("it is damaged")

func decode(b []byte) (*File, error) {
	var doc struct {
		Head
		Snapshots []json.RawMessage `json:"snapshots"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, err
	}
	f := &File{Head: doc.Head, Deltas: make([]Delta, len(doc.Snapshots))}
	for i, raw := range doc.Snapshots {
		if err := json.Unmarshal(raw, &f.Deltas[i]); err != nil {
			return nil, err
		}
		f.Deltas[i].raw = raw
	}
	return f, nil
}
