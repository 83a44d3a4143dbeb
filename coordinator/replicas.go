package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// replicas are the processes that serve the catalog, as they announce themselves in
// the store (R17): one key each, written anew at every heartbeat. They are for
// operators, for who does what first, and for switching on what every build must
// know. No lease: nobody loses a right by being silent.
type replicas struct {
	c       *Catalog
	id      string
	started time.Time

	reach atomic.Pointer[reach]

	mu   sync.Mutex
	seen map[string]*seenReplica
}

// seenReplica is another's announcement. Its life is counted on this process's own
// clock, from when its key last changed.
type seenReplica struct {
	record  replicaRecord
	rev     lock.Revision
	changed time.Duration
	// again: the key has changed since it was first read. Until then nobody knows how long
	// it had stood there.
	again bool
	// ahead is how far its clock is at least ahead of ours; negative if it is behind.
	ahead time.Duration
}

// replicaRecord is the value of a key, format 1.
type replicaRecord struct {
	Format   int                      `json:"format"`
	ID       string                   `json:"id"`
	Address  string                   `json:"address,omitempty"`
	Build    string                   `json:"build"`
	Codec    int                      `json:"codec"`
	Position twophase.Position        `json:"position"`
	Snapshot twophase.SnapshotVersion `json:"snapshot"`
	Started  time.Time                `json:"started"`
	At       time.Time                `json:"at"`
	reach
}

// reach is which tables' places a replica may use: all but those without, or, where these are
// more than the others are told, nobody knows which.
type reach struct {
	Without []twophase.TableID `json:"without,omitempty"`
	Partial bool               `json:"partial,omitempty"`
}

// withoutTold bounds what a replica says of that at every heartbeat.
const withoutTold = 200

func (r reach) may(id twophase.TableID) bool { return !r.Partial && !slices.Contains(r.Without, id) }

func everything(reach) bool { return true }

// reachNow is that of this replica.
func (c *Catalog) reachNow() *reach {
	out := &reach{}
	for _, row := range c.logFolders() {
		switch {
		case c.reaches(row):
		case len(out.Without) == withoutTold:
			return &reach{Partial: true}
		default:
			out.Without = append(out.Without, row.ID)
		}
	}
	return out
}

const replicaPrefix = "replica/"

// unreachable begins the mark of a writer that has no address.
const unreachable = "#"

// A replica is taken for alive for three heartbeats; its key is removed by the others
// when it has not changed for an hour.
const (
	aliveBeats  = 3
	replicaGone = time.Hour
	goneWithin  = time.Second // what the end of a replica may wait for its key
)

func newReplicas(c *Catalog) *replicas {
	r := &replicas{c: c, id: uuid.NewString()[:8], started: c.cfg.Now(), seen: map[string]*seenReplica{}}
	r.reach.Store(&reach{}) // until the first heartbeat
	return r
}

// writer is how entries of this replica are marked: with the address at which it is
// reached (R15), or, if it has none, with something that is its own alone.
func (r *replicas) writer() string {
	if r.c.cfg.Address != "" {
		return r.c.cfg.Address
	}
	return unreachable + r.id
}

// run announces this replica and looks at the others until ctx ends; then it takes
// its key away. An announcement under way is waited for: one that is cut off may land
// behind the removal, and stand there as a silent replica.
func (r *replicas) run(ctx context.Context) {
	if !r.c.cfg.SharedStore {
		return
	}
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(goneWithin, cancel) })()
	beat := func(ctx context.Context) {
		if err := r.beat(last); err != nil && ctx.Err() == nil {
			r.c.log.Warn("announce this replica", "error", err)
		}
	}
	beat(ctx)
	every(ctx, r.c.cfg.Limits.Heartbeat, beat)
	_ = r.c.cfg.Store.Delete(last, replicaPrefix+r.id) // else the others see its silence
}

func (r *replicas) beat(ctx context.Context) error {
	r.reach.Store(r.c.reachNow())
	value, err := json.Marshal(r.own())
	if err != nil {
		return err
	}
	_, err = r.c.cfg.Store.Put(ctx, replicaPrefix+r.id, value, lock.Always())
	if errors.Is(err, lock.ErrUnknown) {
		err = nil // the next one repeats it
	}
	return errors.Join(err, r.look(ctx))
}

func (r *replicas) own() replicaRecord {
	return replicaRecord{
		Format: 1, ID: r.id, Address: r.c.cfg.Address, Build: r.c.cfg.Version, Codec: int(r.c.codec()),
		Position: r.c.next(), Snapshot: r.c.Shown(), Started: r.started, At: r.c.cfg.Now(),
		reach: *r.reach.Load(),
	}
}

// look reads the others' announcements.
func (r *replicas) look(ctx context.Context) error {
	found := map[string]bool{}
	for after := ""; ; {
		items, err := r.c.cfg.Store.Scan(ctx, replicaPrefix, after, 0)
		if err != nil {
			return err
		}
		if len(items) == 0 {
			break
		}
		for _, it := range items {
			after = it.Key
			found[strings.TrimPrefix(it.Key, replicaPrefix)] = true
			r.noteReplica(it)
		}
	}
	return r.forget(ctx, found)
}

func (r *replicas) noteReplica(it lock.Item) {
	id := strings.TrimPrefix(it.Key, replicaPrefix)
	var rec replicaRecord
	if id == r.id || json.Unmarshal(it.Value, &rec) != nil || rec.ID != id {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.seen[id]
	if was != nil && was.rev == it.Revision {
		return
	}
	r.seen[id] = &seenReplica{record: rec, rev: it.Revision, changed: r.c.cfg.Boot(), again: was != nil, ahead: r.ahead(rec, was != nil)}
}

// ahead compares another's clock with ours. What it wrote, it wrote before it was read
// here; and if the key was read before, then not before the look ahead of this one.
func (r *replicas) ahead(rec replicaRecord, again bool) time.Duration {
	now := r.c.cfg.Now()
	if d := rec.At.Sub(now); d > 0 {
		return d
	}
	if d := rec.At.Sub(now.Add(-2 * r.c.cfg.Limits.Heartbeat)); again && d < 0 {
		return d
	}
	return 0
}

// forget drops replicas whose key is gone, and removes keys that have not changed for
// long. A process that was paused for so long announces itself again.
func (r *replicas) forget(ctx context.Context, found map[string]bool) error {
	now := r.c.cfg.Boot()
	var gone []string
	r.mu.Lock()
	for id, s := range r.seen {
		switch {
		case !found[id]:
			delete(r.seen, id)
		case now-s.changed > replicaGone:
			gone = append(gone, id)
		}
	}
	r.mu.Unlock()
	for _, id := range gone {
		if err := r.c.cfg.Store.Delete(ctx, replicaPrefix+id); err != nil {
			return err
		}
	}
	return nil
}

// live are the ids of this replica and of those that were heard of lately, as far as their reach
// is such.
func (r *replicas) live(such func(reach) bool) (out []string) {
	if such(*r.reach.Load()) {
		out = append(out, r.id)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, s := range r.seen {
		if r.alive(s) && such(s.record.reach) {
			out = append(out, id)
		}
	}
	return out
}

// alive is for who does what: what was never heard of twice counts for a while.
func (r *replicas) alive(s *seenReplica) bool { return r.quiet(s) <= r.lives() }

func (r *replicas) quiet(s *seenReplica) time.Duration { return r.c.cfg.Boot() - s.changed }

func (r *replicas) lives() time.Duration { return aliveBeats * r.c.cfg.Limits.Heartbeat }

// silent is for operators: of one that was not heard of again since this process began
// it goes by that one's clock, so that the dead are not shown as alive after each start.
func (r *replicas) silent(s *seenReplica) time.Duration {
	if s.again {
		return r.quiet(s)
	}
	return max(r.quiet(s), r.c.cfg.Now().Sub(s.record.At))
}

// list is all of them, this one first.
func (r *replicas) list() []ReplicaInfo {
	info := func(rec replicaRecord) ReplicaInfo {
		return ReplicaInfo{
			ID: rec.ID, Address: rec.Address, Build: rec.Build, Codec: rec.Codec, Position: rec.Position,
			Snapshot: rec.Snapshot, Started: rec.Started,
		}
	}
	own := info(r.own())
	own.Self, own.Alive = true, true
	var others []ReplicaInfo
	r.mu.Lock()
	for _, s := range r.seen {
		other := info(s.record)
		other.Silent, other.ClockAhead = r.silent(s), s.ahead
		other.Alive = other.Silent <= r.lives()
		others = append(others, other)
	}
	r.mu.Unlock()
	slices.SortFunc(others, func(a, b ReplicaInfo) int { return compare(a.Address+"\x00"+a.ID, b.Address+"\x00"+b.ID) })
	return append([]ReplicaInfo{own}, others...)
}
