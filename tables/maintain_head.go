package tables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// head is the state at a version without its files. Lines are kept as they stand,
// so that what a checkpoint has a column for is carried over untouched.
type head struct {
	protocol *Protocol
	meta     *MetaData
	profile  *Profile
	lines    struct{ protocol, meta []byte }
	txns     map[string]headTxn
	// domains has nil for one that was removed.
	domains map[string][]byte
	// sidecars are those of the checkpoint that the state is replayed from.
	sidecars []sidecarRef
	// contents, while that is read, is what it says of itself.
	contents *contents
	line     line
}

type headTxn struct {
	version int64
	line    []byte
}

func (h *head) txnVersion(app string) int64 { return h.txns[app].version }

// readHead replays newest first: the first line that names something counts.
func (k *Keeper) readHead(ctx context.Context, src *source) (*head, error) {
	h := &head{txns: map[string]headTxn{}, domains: map[string][]byte{}}
	if err := k.eachLine(ctx, src, h.note); err != nil {
		return nil, err
	}
	file := ""
	if c := src.checkpoint; c != nil {
		file = k.log.nameOf(c.Files[0].Key)
		if err := k.readHeadOf(ctx, h, *c); err != nil {
			return nil, err
		}
	}
	fault := func(f Fault, err error) error {
		e := k.log.fault(f, file, err)
		e.Version = src.at
		return e
	}
	switch {
	case h.protocol == nil:
		return nil, fault(NoProtocol, nil)
	case h.meta == nil:
		return nil, fault(NoMetaData, nil)
	}
	if err := h.protocol.checkReadable(k.log.URI); err != nil {
		return nil, fault(Unsupported, err)
	}
	h.profile = newProfile(k.log.URI, src.at, h.protocol, h.meta, nil)
	return h, nil
}

// readHeadOf reads a checkpoint's own files, which have to name all of it. *LogError.
func (k *Keeper) readHeadOf(ctx context.Context, h *head, c ListedCheckpoint) error {
	h.contents = &contents{}
	defer func() { h.contents = nil }()
	for _, f := range c.Files {
		if err := k.readCheckpointFile(ctx, c.Version, f, HeadActions, h.note); err != nil {
			return err
		}
	}
	h.sidecars = h.contents.sidecars
	return h.contents.check(k.log, c)
}

// note takes a line. File actions are passed over without being parsed; that is
// done when they are read for themselves.
func (h *head) note(text []byte) error {
	if isFileLine(text) {
		return nil
	}
	l := &h.line
	if err := l.parse(text, false); err != nil {
		return err
	}
	if err := l.complete(false); err != nil {
		return err
	}
	if h.contents != nil {
		if err := h.contents.note(l); err != nil {
			return err
		}
	}
	var err error
	switch l.kind {
	case kindTxn:
		if _, newer := h.txns[string(l.app)]; !newer {
			h.txns[string(l.app)] = headTxn{l.version, slices.Clone(text)}
		}
	case kindDomain:
		if _, newer := h.domains[string(l.domain)]; !newer {
			h.domains[string(l.domain)] = nil
			if !l.removed {
				h.domains[string(l.domain)] = slices.Clone(text)
			}
		}
	case kindProtocol:
		if h.protocol == nil {
			h.protocol, err = parseProtocol(l.body)
			h.lines.protocol = slices.Clone(text)
		}
	case kindMetaData:
		if h.meta == nil {
			h.meta, err = parseMetaData(l.body)
			h.lines.meta = slices.Clone(text)
		}
	default: // a checkpoint holds nothing else, save what it says of itself
	}
	return err
}

var fileLines = [][]byte{[]byte(`{"add":{`), []byte(`{"remove":{`)}

func isFileLine(text []byte) bool {
	return slices.ContainsFunc(fileLines, func(begin []byte) bool { return bytes.HasPrefix(text, begin) })
}

// nameOf is a file's name in the log's folder.
func (l *Log) nameOf(key string) string { return strings.TrimPrefix(key, l.prefix) }

// readCheckpointFile reads a file of a checkpoint. *LogError if it is damaged, and
// an error of the store if that is what failed.
func (k *Keeper) readCheckpointFile(ctx context.Context, v twophase.Version, f objstore.Info, what Portion, yield func([]byte) error) error {
	name := k.log.nameOf(f.Key)
	if strings.HasSuffix(f.Key, ".json") {
		if err := linesBackward(ctx, k.log.Store, f, yield); err != nil {
			return k.wrongFile(ctx, v, f.Key, err, err)
		}
		return nil
	}
	read := k.cfg.Format.Read
	if read == nil {
		return fmt.Errorf("table %s: checkpoint %s: no reader for Parquet is configured", k.log.URI, name)
	}
	r := newPieceReader(ctx, k.log.Store, f)
	if err := read(ctx, r, f.Size, what, yield); err != nil {
		return k.wrongFile(ctx, v, f.Key, err, r.failed)
	}
	return nil
}

// wrongFile tells a bad file from a store that failed. stored is what the store said.
func (k *Keeper) wrongFile(ctx context.Context, v twophase.Version, key string, err, stored error) error {
	var ours *fieldError
	var syntax *syntaxError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &ours), errors.As(err, &syntax):
	case stored != nil && !errors.Is(stored, objstore.ErrNotFound):
		return fmt.Errorf("read %s of table %s: %w", k.log.nameOf(key), k.log.URI, stored)
	}
	return k.log.badCheckpoint(v, key, err)
}
