package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/txcoord/txcoord/coordinator/quota"
	"github.com/txcoord/txcoord/internal/nearest"
	"github.com/txcoord/txcoord/twophase"
)

// limit is one bound that a server has. Its name is that of the errors.
type limit struct {
	name, about string
	// def is the default, for people.
	def string
	// field is where it stands in a Config: a *int, *int64, *uint32, *time.Duration or
	// principalLimit.
	field func(c *Config) any
}

// limits are all of them, in the order of a request's way.
var limits = []limit{
	{"message_bytes", "of one request message; larger actions go as a stream", "16MiB", func(c *Config) any { return &c.rpc.MessageBytes }},
	{"chunk_bytes", "of one chunk of a stream", "1MiB", func(c *Config) any { return &c.rpc.ChunkBytes }},
	{"stream_bytes", "that all streams hold in memory together", "1GiB", func(c *Config) any { return &c.rpc.StreamBytes }},
	{"calls", "that one connection has open", "10000", func(c *Config) any { return &c.rpc.Calls }},
	{quota.NameOpenTransactions, "that one principal began in one catalog and that are not decided; 0 for none", "100000", principal(quota.NameOpenTransactions)},
	{quota.NameStagedBytes, "of parts of those; 0 for none", "64GiB", principal(quota.NameStagedBytes)},
	{quota.NameCommits, "a second of one principal in one catalog, as many at once; 0 for none", "10000", principal(quota.NameCommits)},
	{quota.NameCalls, "of one principal in one catalog under way at a time; 0 for none", "10000", principal(quota.NameCalls)},
	{quota.NameStreams, "of one principal in one catalog under way at a time: parts streamed in, and watches; 0 for none", "1000", principal(quota.NameStreams)},
	{"idle_ping", "without traffic, after which a connection is asked whether it lives", "30s", func(c *Config) any { return &c.rpc.IdlePing }},
	{"key_bytes", "of a client's key", "512", func(c *Config) any { return &c.coordinator.KeyBytes }},
	{"key_attempts", "of one key: the highest number of one", "10000", func(c *Config) any { return &c.coordinator.KeyAttempts }},
	{"default_ttl", "of a transaction that does not say", "1h", func(c *Config) any { return &c.coordinator.TTL }},
	{"transaction_ttl", "of a transaction, at most", "24h", func(c *Config) any { return &c.coordinator.MaxTTL }},
	{"tables_per_transaction", "that a transaction writes or reads", "10000", func(c *Config) any { return &c.coordinator.TablesPerTxn }},
	{"parts_per_table", "in a transaction", "1000", func(c *Config) any { return &c.coordinator.PartsPerTable }},
	{"part_bytes", "of the actions of one part", "1GiB", func(c *Config) any { return &c.coordinator.Actions.PartBytes }},
	{"line_bytes", "of one action line", "32MiB", func(c *Config) any { return &c.coordinator.Actions.LineBytes }},
	{"actions", "in one part", "1000000", func(c *Config) any { return &c.coordinator.Actions.Actions }},
	{"read_files", "in a read set", "100000", func(c *Config) any { return &c.coordinator.ReadFiles }},
	{"inline_bytes", "of a part up to which it lies in the store, above as an object", "16KiB", func(c *Config) any { return &c.coordinator.InlineBytes }},
	{"bundle_bytes", "of small parts of one-call commits that share an item of the store", "256KiB", func(c *Config) any { return &c.coordinator.BundleBytes }},
	{"facts_bytes", "of conflict facts up to which they stand in the journal", "32KiB", func(c *Config) any { return &c.coordinator.FactsBytes }},
	{"older_versions", "of a table since a read point, that are read from its log to check it", "10000", func(c *Config) any { return &c.coordinator.OlderVersions }},
	{"older_bytes", "of conflict facts that are read to check what one commit has read", "64MiB", func(c *Config) any { return &c.coordinator.OlderBytes }},
	{"entry_bytes", "of a group of transactions that are decided together", "256KiB", func(c *Config) any { return &c.coordinator.EntryBytes }},
	{"max_entry_bytes", "of one entry of the journal", "1MiB", func(c *Config) any { return &c.coordinator.MaxEntryBytes }},
	{"queue_bytes", "of actions that wait to be decided or published", "1GiB", func(c *Config) any { return &c.coordinator.QueueBytes }},
	{"put_parallel", "puts in flight over all tables in buckets", "256", func(c *Config) any { return &c.coordinator.PutParallel }},
	{"gather_at_most", "before an entry, for those whom the entry before has answered that their tables are published, where several shared that or others wait for the same tables; as long again for calls on their way; every entry waits so, whatever is in it; 1ns for never", "20ms", func(c *Config) any { return &c.coordinator.GatherAtMost }},
	{"put_parallel_files", "puts in flight over all tables in local folders", "32", func(c *Config) any { return &c.coordinator.FilePutParallel }},
	{"put_parallel_unhurried", "of `put_parallel_files`, for versions that no caller waits for: what is decided meanwhile shares the next", "8", func(c *Config) any { return &c.coordinator.FilePutUnhurried }},
	{"put_deadline", "of one commit file's put", "30s", func(c *Config) any { return &c.coordinator.PutDeadline }},
	{"freeze_after", "that a table may hold a round up before it is frozen", "30s", func(c *Config) any { return &c.coordinator.FreezeAfter }},
	{"poll_interval", "between looks at tables that others may write", "5s", func(c *Config) any { return &c.coordinator.PollInterval }},
	{"fence_grace", "from a fence's publication to when it counts; longer than any other writer works on one commit", "1h", func(c *Config) any { return &c.coordinator.FenceGrace }},
	{"owner_interval", "between looks at a table's owner object", "10s", func(c *Config) any { return &c.coordinator.OwnerInterval }},
	{"outcome_retention", "that outcomes, and so the uniqueness of keys, are kept", "168h", func(c *Config) any { return &c.coordinator.OutcomeRetention }},
	{"outcome_count", "outcomes that are kept at most", "200000", func(c *Config) any { return &c.coordinator.OutcomeCount }},
	{"checkpoint_every", "entries between checkpoints of the journal", "1024", func(c *Config) any { return &c.coordinator.CheckpointEvery }},
	{"checkpoint_records", "records of the journal between its checkpoints, should that come first; more where a checkpoint writes more than 2 KiB for each", "8192", func(c *Config) any { return &c.coordinator.CheckpointRecords }},
	{"extract_every", "versions of a table in a bucket between the extracts that a start reads of it instead of its log, where no checkpoint comes first: each commit is read for it; a large number for none but those of checkpoints", "256", func(c *Config) any { return &c.coordinator.ExtractEvery }},
	{"extract_every_files", "the same of tables in local folders", "64", func(c *Config) any { return &c.coordinator.FileExtractEvery }},
	{"read_ahead", "commits of a table in a bucket, and manifests, that are read at once, as after a start or by fsck", "64", func(c *Config) any { return &c.coordinator.ReadAhead }},
	{"read_ahead_files", "the same in local folders: while a disk or a share hangs, each takes a thread, and a process has 10,000 at most", "16", func(c *Config) any { return &c.coordinator.FileReadAhead }},
	{"follow_interval", "between looks for what other replicas append, at most; five times that with etcd, which tells", "1s", func(c *Config) any { return &c.coordinator.FollowInterval }},
	{"take_over_after", "that a replica leaves what follows from another's entry to that one", "500ms", func(c *Config) any { return &c.coordinator.TakeOverAfter }},
	{"heartbeat", "between announcements of a replica", "5s", func(c *Config) any { return &c.coordinator.Heartbeat }},
	{"max_codec", "is the newest encoding of the journal that this server agrees to; a way back to an older build stays open until all agree", fmt.Sprint(twophase.CodecVersion), func(c *Config) any { return &c.coordinator.MaxCodec }},
	{"store_grace", "in which an object store may still apply a put that it accepted; a replaced table is not resolved before", "10m", func(c *Config) any { return &c.coordinator.StoreGrace }},
	{"lease_ttl", "of a lease that does not say", "24h", func(c *Config) any { return &c.coordinator.LeaseTTL }},
	{"max_lease_ttl", "of a lease, at most", "720h", func(c *Config) any { return &c.coordinator.MaxLeaseTTL }},
	{"lease_count", "leases of the catalog", "1000", func(c *Config) any { return &c.coordinator.LeaseCount }},
	{"lease_interval", "between looks for leases that have ended", "10s", func(c *Config) any { return &c.coordinator.LeaseInterval }},
	{"gc_object_bytes", "of one object that gc moves, four of which it holds in memory", "256MiB", func(c *Config) any { return &c.coordinator.GarbageObjectBytes }},
	{"reserve_after", "attempts of one key that lost, after which it goes first on its tables; a large number for never", "5", func(c *Config) any { return &c.coordinator.ReserveAfter }},
	{"reserve_positions", "of the journal for which it goes first at most", "4096", func(c *Config) any { return &c.coordinator.ReservePositions }},
	{"reserve_time", "for which it goes first at most, where others wait; longer than its attempts take", "30s", func(c *Config) any { return &c.coordinator.ReserveTime }},
	{"reserve_wait", "that one call waits for a key that goes first, before its client is told to ask again", "10s", func(c *Config) any { return &c.coordinator.ReserveWait }},
	{"maintain_bytes", "that maintenance reads for one checkpoint of a table", "16GiB", func(c *Config) any { return &c.maintain.MaxTableBytes }},
	{"maintain_rate", "bytes a second that background maintenance keeps to", "32MiB", func(c *Config) any { return &c.maintain.BytesPerSecond }},
	{"maintain_interval", "between looks of background maintenance at all tables", "10s", func(c *Config) any { return &c.maintain.Every }},
	{"clean_interval", "between clean-ups of one table's log in the background", "24h", func(c *Config) any { return &c.maintain.CleanEvery }},
	{"sidecar_rows", "of one sidecar of a V2 checkpoint", "100000", func(c *Config) any { return &c.maintain.SidecarRows }},
	{"map_every", "snapshots between manifests that list all tables", "1000", func(c *Config) any { return &c.coordinator.MapEvery }},
	{"manifest_snapshots", "of one manifest file at most", "1000", func(c *Config) any { return &c.coordinator.ManifestSnapshots }},
	{"manifest_bytes", "of one manifest file, unless one snapshot has more", "1MiB", func(c *Config) any { return &c.coordinator.ManifestBytes }},
}

// isDuration reports whether a limit of that name is a time.
func isDuration(name string) bool {
	for _, l := range limits {
		if l.name == name {
			_, ok := l.field(&Config{}).(*time.Duration)
			return ok
		}
	}
	return false
}

// principal is a limit of one principal.
func principal(name string) func(c *Config) any {
	return func(c *Config) any { return principalLimit{name, &c.quota} }
}

type principalLimit struct {
	name   string
	limits *quota.Limits
}

func setLimit(c *Config, name, value string) error {
	for _, l := range limits {
		if l.name == name {
			return l.set(c, value)
		}
	}
	names := make([]string, len(limits))
	for i, l := range limits {
		names[i] = l.name
	}
	return usage("--limit", name, "there is no limit of that name; --list-limits lists them"+nearest.Meant(name, names))
}

func (l limit) set(c *Config, value string) error {
	switch f := l.field(c).(type) {
	case *time.Duration:
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return usage("--limit "+l.name, value, "give a duration above 0, such as "+l.def)
		}
		*f = d
	case *int:
		n, err := l.number(value)
		if err != nil {
			return err
		}
		*f = int(n)
	case *int64:
		n, err := l.number(value)
		if err != nil {
			return err
		}
		*f = n
	case *uint32:
		n, err := l.number(value)
		if err != nil || n > 1<<32-1 {
			return usage("--limit "+l.name, value, "give a number from 1 to 4294967295")
		}
		*f = uint32(n)
	case principalLimit:
		if err := f.limits.Set(f.name, value); err != nil {
			return usage("--limit "+l.name, value, err.Error())
		}
	default:
		return fmt.Errorf("limit %s has a field of type %T", l.name, f)
	}
	return nil
}

var units = []struct {
	name  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}

func (l limit) number(value string) (int64, error) {
	digits, factor := value, int64(1)
	for _, u := range units {
		if d, ok := strings.CutSuffix(value, u.name); ok {
			digits, factor = d, u.bytes
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > (1<<62)/factor {
		return 0, usage("--limit "+l.name, value, "give a whole number above 0, such as "+l.def)
	}
	return n * factor, nil
}

func (s *session) showLimits() error {
	if s.Output == "json" {
		all := make([]object, len(limits))
		for i, l := range limits {
			all[i] = object{{"name", l.name}, {"default", l.def}, {"about", l.about}}
		}
		return s.tell("", object{{"limits", all}})
	}
	g := newGrid(s.out)
	g.row("LIMIT", "DEFAULT", "")
	for _, l := range limits {
		g.row(l.name, l.def, l.about)
	}
	return g.flush()
}
