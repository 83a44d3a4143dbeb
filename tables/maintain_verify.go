package tables

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/txcoord/txcoord/twophase"
)

// fingerprint is what two replays of one version have to agree on. The sum over the
// files does not depend on their order.
type fingerprint struct {
	files int64
	sum   [2]uint64
	// head is protocol and metadata; apps are applications and domains.
	head, apps string
}

// verify reads a checkpoint whole, and compares it with a replay of the same version
// from as far back as the log allows, so that a checkpoint is not judged by another one
// while the commits of both are there. *LogError BadCheckpoint if it is not what it
// stands for. The commits after from were read for it, and those up to it were not.
func (k *Keeper) verify(ctx context.Context, listing *Listing, c ListedCheckpoint) (from twophase.Version, err error) {
	own := source{at: c.Version, checkpoint: &c, kept: map[twophase.Version][]byte{}}
	got, err := k.fingerprint(ctx, &own)
	if err != nil {
		return 0, err
	}
	lower := completeBelow(listing, c.Version)
	for n := range len(lower) + 1 {
		want, there, err := k.without(ctx, listing, c.Version, lower[:n])
		switch {
		case err != nil:
			return 0, err
		case there && got != want:
			return 0, k.log.badCheckpoint(c.Version, c.Files[0].Key,
				fmt.Errorf("it has %d live files, the log below it %d; or they differ in a file, an application, a domain, protocol or metadata", got.files, want.files))
		case there && n == 0:
			return twophase.NoVersion, nil
		case there:
			return lower[n-1].Version, nil
		}
	}
	return c.Version, nil // nothing else tells what the version holds
}

func completeBelow(listing *Listing, v twophase.Version) (out []ListedCheckpoint) {
	for _, c := range listing.Checkpoints {
		if c.Complete && c.Version < v {
			out = append(out, c)
		}
	}
	return out
}

// without replays a version from the newest of some checkpoints; there is false if the
// log has not all the commits for that.
func (k *Keeper) without(ctx context.Context, listing *Listing, at twophase.Version, below []ListedCheckpoint) (print fingerprint, there bool, err error) {
	reduced := *listing
	reduced.Checkpoints = below
	src, err := k.sourceOf(&reduced, at)
	if gap, ok := errors.AsType[*LogError](err); ok && gap.Fault == Gap {
		return fingerprint{}, false, nil
	}
	if err != nil {
		return fingerprint{}, false, err
	}
	print, err = k.fingerprint(ctx, &src)
	return print, err == nil, err
}

// DifferingCheckpoint is one that holds another state than the commits of its version.
type DifferingCheckpoint struct {
	Version twophase.Version
	// Files are the names of its own files in the log's folder.
	Files []string
	// Has and Want count live files, in the checkpoint and by the commits.
	Has, Want int64
}

// DifferingCheckpoints compares each checkpoint with the commits up to it, on top of the
// newest one below that did not differ, as far as these are there. Applications and domains
// are left out: an engine may let them expire. A commit that is not what was recorded, or
// cannot be read, is *LogError, and nothing is said of the checkpoints from there on.
func (k *Keeper) DifferingCheckpoints(ctx context.Context) ([]DifferingCheckpoint, error) {
	listing, _, err := k.listAll(ctx)
	if err != nil {
		return nil, err
	}
	var out []DifferingCheckpoint
	var sound []ListedCheckpoint
	for _, c := range completeBelow(listing, listing.Last()+1) {
		want, there, err := k.without(ctx, listing, c.Version, sound)
		if err != nil {
			return out, err
		}
		if !there {
			sound = append(sound, c)
			continue
		}
		own := source{at: c.Version, checkpoint: &c, kept: map[twophase.Version][]byte{}}
		got, err := k.fingerprint(ctx, &own)
		if err != nil {
			return out, err
		}
		if got.files == want.files && got.sum == want.sum && got.head == want.head {
			sound = append(sound, c)
			continue
		}
		d := DifferingCheckpoint{Version: c.Version, Has: got.files, Want: want.files}
		for _, f := range c.Files {
			d.Files = append(d.Files, k.log.nameOf(f.Key))
		}
		out = append(out, d)
	}
	return out, nil
}

func (k *Keeper) fingerprint(ctx context.Context, src *source) (fingerprint, error) {
	h, err := k.readHead(ctx, src)
	if err != nil {
		return fingerprint{}, k.judged(src.checkpoint, err)
	}
	out := fingerprint{head: h.fingerprint(), apps: h.appsPrint()}
	var live extractor
	err = k.filesOf(src).all(ctx, h, func(a *fileAction) error {
		if a.line.kind != kindAdd {
			return nil
		}
		live.add(a)
		out.files++
		sum := keyOf(string(a.key[:]), strconv.FormatInt(a.line.size, 10))
		for i := range out.sum {
			for j, b := range sum[8*i : 8*i+8] {
				out.sum[i] += uint64(b) << (8 * j)
			}
		}
		return nil
	})
	if err == nil {
		err = live.once(k.log, src)
	}
	return out, k.judged(src.checkpoint, err)
}

// fingerprint stands for what matters of the head. Checkpoints leave empty fields
// of the metadata out, so its raw text cannot be compared.
func (h *head) fingerprint() string {
	p, m := h.protocol, h.meta
	texts := []string{
		strconv.Itoa(p.MinReader), strconv.Itoa(p.MinWriter), fmt.Sprint(p.ReaderFeatures), fmt.Sprint(p.WriterFeatures),
		m.ID, m.Schema, fmt.Sprint(m.PartitionColumns), strconv.FormatUint(hashConfig(m.Configuration), 16),
	}
	return strconv.FormatUint(hashTexts("head", texts...), 16)
}

// appsPrint stands for applications and domains.
func (h *head) appsPrint() string {
	var texts []string
	for _, line := range h.headLines()[2:] {
		texts = append(texts, string(h.essence(line)))
	}
	return strconv.FormatUint(hashTexts("apps", texts...), 16)
}

// essence is what a txn or domainMetadata line says, however it is written.
func (h *head) essence(text []byte) []byte {
	l := &h.line
	if l.parse(text, false) != nil {
		return text
	}
	return fmt.Appendf(nil, "%q %d %q %q", l.app, l.version, l.domain, l.configuration)
}
