package tables

import (
	"errors"

	"github.com/txcoord/txcoord/twophase"
)

// Limits bound one part. A zero field has the default.
type Limits struct {
	// LineBytes bounds one line: 32 MiB.
	LineBytes int
	// PartBytes bounds a part, all pieces together: 1 GiB.
	PartBytes int
	// Actions bounds the lines of a part: 1,000,000.
	Actions int
}

func (l Limits) withDefaults() Limits {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	set(&l.LineBytes, 32<<20)
	set(&l.PartBytes, 1<<30)
	set(&l.Actions, 1_000_000)
	return l
}

// reservedApp is the prefix of the app ids that are ours (R3).
const reservedApp = "txcoord/"

// File is an add or a remove.
type File struct {
	// Line in its piece, from 1.
	Line int
	// Path is canonical.
	Path string
	Hash PathHash
	DV   DVHash
	Size int64
	// DataChange is false if the action only moves rows.
	DataChange bool
	// NumRecords: stats.numRecords is there.
	NumRecords bool
	// Partition is an index into Actions.Partitions; -1 if the action has no values.
	Partition int
}

// PartitionValues are the values of one or more files, by physical column, sorted.
type PartitionValues []PartitionValue

// PartitionValue is one value; Null stands for null and for the empty string,
// which Delta does not tell apart.
type PartitionValue struct {
	Column string
	Value  string
	Null   bool
}

// Domain is a domainMetadata action.
type Domain struct {
	Name          string
	Configuration string
	Removed       bool
}

// Actions are the parsed lines of a part, or of a commit.
type Actions struct {
	Adds, Removes []File
	// Partitions are the different partition values of adds and removes.
	Partitions []PartitionValues
	CDCs       int
	Txns       []twophase.AppVersion
	Domains    []Domain
	Protocol   *Protocol
	MetaData   *MetaData
	// Info is the commitInfo object as it came; nil if there is none.
	Info []byte
	// Lines and Bytes count what was parsed, white space lines left out.
	Lines int
	Bytes int

	place    place
	staged   []stagedAdd // beside Adds, of what clients stage only
	lastPart []byte      // raw values of the last file: files of one partition follow each other
	lastIdx  int
	partIdx  map[string]int
}

// stagedAdd is what of an add only some tables' features look at. stats shares memory
// with the piece.
type stagedAdd struct {
	stats []byte
	rows  stagedRows
}

// ParseActions reads the staged pieces of one part, in order, and checks all that
// needs no table: syntax, required fields, what one commit may not hold (a path
// added twice, add and remove of one file, two metaData, …), unknown actions,
// reserved app ids, adds outside the table's root. *InputError or *LimitError.
func ParseActions(tableURI string, l Limits, pieces ...[]byte) (*Actions, error) {
	l = l.withDefaults()
	a := &Actions{place: placeOf(tableURI)}
	for _, piece := range pieces {
		a.Bytes += len(piece)
	}
	if a.Bytes > l.PartBytes {
		return nil, &LimitError{Limit: "part_bytes", Value: int64(a.Bytes), Max: int64(l.PartBytes)}
	}
	p := parser{Actions: a, strict: true, limits: l, sum: &oneCommit{}}
	for i, piece := range pieces {
		if err := p.piece(piece); err != nil {
			return nil, inPiece(err, i)
		}
		if p.Lines == p.before {
			return nil, &InputError{Piece: i, Field: "actions", Reason: "there is no action in it"}
		}
		p.before = p.Lines
	}
	a.lastPart, a.partIdx = nil, nil // they share memory with the pieces
	return a, a.outside(p.sum)
}

func inPiece(err error, piece int) error {
	if in, ok := errors.AsType[*InputError](err); ok {
		in.Piece = piece
	}
	return err
}
