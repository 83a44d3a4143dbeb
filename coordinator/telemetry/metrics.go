package telemetry

import (
	"strings"

	"github.com/txcoord/txcoord/coordinator/quota"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// Kind is what sort of metric one is.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Metric is one metric of the list.
type Metric struct {
	// Name in OpenTelemetry; Prometheus is Prometheus's.
	Name string
	Kind Kind
	// Unit as UCUM has it; in braces what is counted.
	Unit  string
	About string
	// Buckets are a histogram's upper bounds.
	Buckets []float64
	Labels  []Label
}

// Label is one label of a metric, with all values that it can have: the number of
// series is known beforehand. Besides, every metric has catalogLabel.
type Label struct {
	Name   string
	Values []string
}

// catalogLabel is on every metric.
const catalogLabel = "catalog"

// other is what a label says of a value that is not among its own.
const other = "other"

// Bounds of histograms. A commit takes milliseconds on a local disk, some hundred on
// object stores, and half a minute where a table freezes.
var (
	seconds = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}
	counts  = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
)

// Phase is a part of a commit's time.
type Phase string

// The phases, in order.
const (
	PhaseStage    Phase = "stage"
	PhaseQueue    Phase = "queue"
	PhaseAppend   Phase = "append"
	PhasePublish  Phase = "publish"
	PhaseManifest Phase = "manifest"
)

// Outcome is what became of a commit call.
type Outcome string

// The outcomes.
const (
	Committed Outcome = "committed"
	Aborted   Outcome = "aborted"
	Refused   Outcome = "refused"
	Unknown   Outcome = "unknown"
)

// Answers of stores.
const (
	answerOK       = "ok"
	answerNotFound = "not_found"
	answerRefused  = "refused"
	answerUnknown  = "unknown"
	answerFailed   = "failed"
)

var (
	phaseLabel   = Label{"phase", texts(PhaseStage, PhaseQueue, PhaseAppend, PhasePublish, PhaseManifest)}
	outcomeLabel = Label{"outcome", texts(Committed, Aborted, Refused, Unknown)}
	answerLabel  = Label{"outcome", []string{answerOK, answerNotFound, answerRefused, answerUnknown, answerFailed}}
	ruleLabel    = Label{"rule", rules()}
	modeLabel    = Label{"mode", texts(twophase.ModeOpen.String(), twophase.ModeExclusive.String(), twophase.ModeFenced.String(), twophase.ModeDeltaStorage.String())}
	causeLabel   = Label{"cause", causes()}
	useLabel     = Label{"use", []string{"read", "written"}}
	garbageLabel = Label{"kind", []string{"part", "open_record", "facts", "checkpoint", "draft", "former_journal", "quarantined", "extract"}}
	memoryLabel  = Label{"kind", []string{"total", "heap"}}
	quotaLabel   = Label{"limit", quota.Names()}
	refusedLabel = Label{"limit", append(quota.Names(), quota.NameQueueBytes, quota.NameStreamBytes)}
)

// The list.
var (
	commitDuration = &Metric{
		Name: "txcoord.commit.duration", Kind: Histogram, Unit: "s", Buckets: seconds, Labels: []Label{outcomeLabel},
		About: "Time of a Commit or CommitOnce call, with the wait for publication where it is asked for. Refused calls are not decided, and neither are unknown ones as far as this replica knows.",
	}
	phaseDuration = &Metric{
		Name: "txcoord.commit.phase.duration", Kind: Histogram, Unit: "s", Buckets: seconds, Labels: []Label{phaseLabel},
		About: "Time of a committed transaction's phases: stage (checking one part and making it durable), queue (waiting for the append), append (the conditional write that decides), publish (from there until every table shows it), manifest (from there until its snapshot's manifest is durable). Transactions that this replica decided.",
	}
	committedTotal = &Metric{
		Name: "txcoord.transactions.committed", Kind: Counter, Unit: "{transaction}",
		About: "Transactions that this replica's appends committed.",
	}
	abortedTotal = &Metric{
		Name: "txcoord.transactions.aborted", Kind: Counter, Unit: "{transaction}", Labels: []Label{ruleLabel},
		About: "Transactions that this replica's appends aborted, by the conflict rule, or by who aborted them. docs/conflicts.md has the rules.",
	}
	reservationsTotal = &Metric{
		Name: "txcoord.reservations", Kind: Counter, Unit: "{reservation}",
		About: "Keys that this replica's appends let go first on their tables, as they had lost many attempts (limit reserve_after). Many of them: jobs that read for long on tables that others write without a pause.",
	}
	groupSize = &Metric{
		Name: "txcoord.group.transactions", Kind: Histogram, Unit: "{transaction}", Buckets: counts,
		About: "Transactions that one append decided.",
	}
	versionSize = &Metric{
		Name: "txcoord.version.transactions", Kind: Histogram, Unit: "{transaction}", Buckets: counts,
		About: "Transactions in one Delta version that this replica put: how well appends coalesce.",
	}
	positionsLost = &Metric{
		Name: "txcoord.positions.lost", Kind: Counter, Unit: "{position}",
		About: "Appends that found their position taken by another replica, and were decided again.",
	}
	tornDuration = &Metric{
		Name: "txcoord.round.torn.duration", Kind: Histogram, Unit: "s", Buckets: seconds,
		About: "Time from the first put of a round over several tables to its close: how long a reader that uses no snapshot could see a part of it.",
	}
	foreignCommits = &Metric{
		Name: "txcoord.foreign.commits", Kind: Counter, Unit: "{commit}", Labels: []Label{{"engine", engineNames()}},
		About: "Commits of other engines that this replica found and recorded, by what they call themselves.",
	}
	storeRequests = &Metric{
		Name: "txcoord.store.request.duration", Kind: Histogram, Unit: "s", Buckets: seconds, Labels: []Label{{"kind", texts(lock.RequestKinds()...)}, answerLabel},
		About: "Requests to the catalog's store by kind and answer. A refused one met a condition that did not hold.",
	}
	objectRequests = &Metric{
		Name: "txcoord.objects.request.duration", Kind: Histogram, Unit: "s", Buckets: seconds, Labels: []Label{{"kind", texts(objstore.RequestKinds()...)}, answerLabel},
		About: "Requests to object stores by kind and answer. A refused put found an object there. A listing takes as long as its reader.",
	}
	tableVersions = &Metric{
		Name: "txcoord.table.versions", Kind: Counter, Unit: "{version}", Labels: []Label{{Name: "table"}},
		About: "Versions that this replica put, by table: only with `--metrics-tables N`, for the first N tables it puts into; the others are `other`.",
	}
	tablesGauge = &Metric{
		Name: "txcoord.tables", Kind: Gauge, Unit: "{table}", Labels: []Label{modeLabel},
		About: "Tables of the catalog, by mode.",
	}
	frozenGauge = &Metric{
		Name: "txcoord.tables.frozen", Kind: Gauge, Unit: "{table}", Labels: []Label{causeLabel},
		About: "Tables that take no commits, by the finding. Stalled ones thaw by themselves, the others need an operator.",
	}
	roundsGauge = &Metric{
		Name: "txcoord.rounds.open", Kind: Gauge, Unit: "{round}",
		About: "Rounds that are being published.",
	}
	waitingGauge = &Metric{
		Name: "txcoord.transactions.waiting", Kind: Gauge, Unit: "{transaction}",
		About: "Decided transactions that wait behind an open round on one of their tables.",
	}
	reservedGauge = &Metric{
		Name: "txcoord.tables.reserved", Kind: Gauge, Unit: "{table}",
		About: "Tables on which a key goes first that has lost many attempts.",
	}
	heldBackGauge = &Metric{
		Name: "txcoord.transactions.held_back", Kind: Gauge, Unit: "{transaction}",
		About: "Commits that this replica holds back until a key has had its turn that goes first.",
	}
	publishLag = &Metric{
		Name: "txcoord.publish.lag", Kind: Gauge, Unit: "s",
		About: "Age of the oldest open round that is not held up by a frozen table; 0 without one.",
	}
	manifestLag = &Metric{
		Name: "txcoord.manifest.lag", Kind: Gauge, Unit: "{snapshot}",
		About: "Snapshots whose manifest is not known to be durable.",
	}
	manifestAge = &Metric{
		Name: "txcoord.manifest.age", Kind: Gauge, Unit: "s",
		About: "Age of the oldest snapshot whose manifest is not known to be durable; 0 without one.",
	}
	snapshotGauge = &Metric{
		Name: "txcoord.snapshot", Kind: Gauge, Unit: "{snapshot}",
		About: "Newest snapshot of this replica's fold.",
	}
	positionGauge = &Metric{
		Name: "txcoord.journal.position", Kind: Gauge, Unit: "{entry}",
		About: "Entries of the journal that this replica has folded.",
	}
	ringFree = &Metric{
		Name: "txcoord.ring.free", Kind: Gauge, Unit: "{entry}",
		About: "Entries that fit into the journal's ring before a checkpoint has to be recorded. From half the ring on appends slow down; in the last eighth they wait.",
	}
	ringSlots = &Metric{
		Name: "txcoord.ring.slots", Kind: Gauge, Unit: "{entry}",
		About: "Size of the journal's ring.",
	}
	openGauge = &Metric{
		Name: "txcoord.transactions.open", Kind: Gauge, Unit: "{transaction}",
		About: "Transactions that began and are not decided, as far as this replica knows.",
	}
	backlogBytes = &Metric{
		Name: "txcoord.backlog", Kind: Gauge, Unit: "By",
		About: "Bytes of actions that wait to be decided or published.",
	}
	backlogLimit = &Metric{
		Name: "txcoord.backlog.limit", Kind: Gauge, Unit: "By",
		About: "Limit queue_bytes, from which on new transactions are refused.",
	}
	quotaRefused = &Metric{
		Name: "txcoord.quota.refused", Kind: Counter, Unit: "{refusal}", Labels: []Label{refusedLabel},
		About: "Calls that were refused because their principal had as much as it may of something, by the limit.",
	}
	quotaUsed = &Metric{
		Name: "txcoord.quota.used", Kind: Gauge, Unit: "%", Labels: []Label{quotaLabel},
		About: "How full a limit of principals is, for the principal for whom it is fullest. Who is about to be refused is not said: principals are no labels, since there may be any number of them.",
	}
	rememberedGauge = &Metric{
		Name: "txcoord.outcomes", Kind: Gauge, Unit: "{outcome}",
		About: "Outcomes and snapshots that the journal's fold remembers; limits outcome_retention and outcome_count bound them.",
	}
	troublesGauge = &Metric{
		Name: "txcoord.troubles", Kind: Gauge, Unit: "{place}", Labels: []Label{useLabel},
		About: "Places, the store or a table's, whose last request of that kind failed, or has no answer for longer than one may take. `txcoord status` names them.",
	}
	replicasGauge = &Metric{
		Name: "txcoord.replicas", Kind: Gauge, Unit: "{replica}",
		About: "Replicas that are alive, this one among them.",
	}
	brokenGauge = &Metric{
		Name: "txcoord.broken", Kind: Gauge,
		About: "1 while this replica takes no writes until an operator has looked: the journal contradicts what was folded or published.",
	}
	garbageTotal = &Metric{
		Name: "txcoord.garbage.removed", Kind: Counter, Unit: "{object}", Labels: []Label{garbageLabel},
		About: "Objects and keys that `txcoord gc` has moved into quarantine, by kind; `quarantined` are those that it removed from there for good, and a `draft` goes at once.",
	}
	garbageBytes = &Metric{
		Name: "txcoord.garbage.removed.size", Kind: Counter, Unit: "By", Labels: []Label{garbageLabel},
		About: "Bytes of those.",
	}
	memoryGauge = &Metric{
		Name: "txcoord.process.memory", Kind: Gauge, Unit: "By", Labels: []Label{memoryLabel},
		About: "Memory of the process: all that it has from the system, and the live heap.",
	}
	goroutinesGauge = &Metric{
		Name: "txcoord.process.goroutines", Kind: Gauge, Unit: "{goroutine}",
		About: "Goroutines of the process.",
	}
)

// Metrics is the list, in the order of docs/metrics.md.
func Metrics() []*Metric {
	return []*Metric{
		commitDuration, phaseDuration, committedTotal, abortedTotal, reservationsTotal, groupSize, versionSize, positionsLost, tornDuration,
		publishLag, manifestLag, manifestAge, roundsGauge, waitingGauge, reservedGauge, heldBackGauge, openGauge, backlogBytes, backlogLimit, quotaRefused, quotaUsed, tablesGauge, frozenGauge, tableVersions, foreignCommits,
		storeRequests, objectRequests, troublesGauge, ringFree, ringSlots, positionGauge, snapshotGauge, rememberedGauge, replicasGauge, brokenGauge,
		garbageTotal, garbageBytes,
		memoryGauge, goroutinesGauge,
	}
}

// Prometheus is what the Prometheus endpoint calls the metric.
func (m *Metric) Prometheus() string {
	name := strings.ReplaceAll(m.Name, ".", "_")
	switch m.Unit {
	case "s":
		name += "_seconds"
	case "By":
		name += "_bytes"
	case "%":
		name += "_percent"
	}
	if m.Kind == Counter {
		name += "_total"
	}
	return name
}

func texts[T ~string](all ...T) []string {
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = string(v)
	}
	return out
}

func rules() (out []string) {
	for r := twophase.RuleNone + 1; !strings.HasPrefix(r.String(), "rule("); r++ {
		out = append(out, r.String())
	}
	return out
}

func causes() (out []string) {
	for c := twophase.CauseStalled; c.String() != "unknown"; c++ {
		out = append(out, c.String())
	}
	return out
}

// engines are known by how their commitInfo.engineInfo begins, in lower case.
var engines = []struct{ prefix, name string }{
	{"apache-spark", "spark"},
	{"databricks", "databricks"},
	{"delta-rs", "delta-rs"},
	{"duckdb", "duckdb"},
	{"kernel", "kernel"},
	{"delta_kernel", "kernel"},
	{"trino", "trino"},
	{"flink", "flink"},
	{"apache-flink", "flink"},
	{"hive", "hive"},
	{"txcoord", "txcoord"},
}

const unnamed = "unnamed"

func engineNames() []string {
	var out []string
	seen := map[string]bool{}
	for _, e := range engines {
		if !seen[e.name] {
			seen[e.name] = true
			out = append(out, e.name)
		}
	}
	return append(out, unnamed, other)
}

// engineOf is the name of an engine by its engineInfo.
func engineOf(info string) string {
	info = strings.ToLower(strings.TrimSpace(info))
	for _, e := range engines {
		if strings.HasPrefix(info, e.prefix) {
			return e.name
		}
	}
	if info == "" {
		return unnamed
	}
	return other
}
