// Command bench measures txcoord against plain ways to commit over several Delta
// tables, in one run, in turns, with a checker after each.
//
//	go run ./bench -run B1      time of one transaction over 1, 10, 50 tables
//	go run ./bench -run B2      1, 8, 64 writers on one table
//	go run ./bench -run B3      64 writers over 1,000 tables, and on 8 of them
//	go run ./bench -run B4      64 writers, half of which replace one file
//	go run ./bench -run B6      SIGKILL with 1,000 transactions in flight
//	go run ./bench -run B7      what 1,000,000 transactions leave behind
//	go run ./bench -run B8      cold start with 10,000 tables
//	go run ./bench -run B9      checkpoints of a table with 1,000,000 files
//	go run ./bench -run B12     60 s without the object store; -contenders txcoord-decided
//	go run ./bench -run B13     what a million transactions cost; -stores sim
//	go run ./bench -run fair    a light principal beside one that is at its quota
//	go run ./bench -run replay  open a log of 2,000 versions, beside delta-rs
//	go run ./bench              all of them but B7, B12, B13 and fair
//
// With -etcd HOST:PORT journals are in an etcd, and B3 has a goal for answers DECIDED:
// -run B3 -contenders occ,dstor,txcoord,txcoord-decided.
//
// With -stores sim the stores take the time of S3 and DynamoDB (a put half the time
// 60 ms, a key 8 ms), which is mostly waiting. With -stores sim-etcd a request for a
// key takes others along, as etcd's do, in the same time. Journals are in memory then,
// or, where B6 or B8 run, in a file.
//
// The figures go to standard output, with -json FILE also to a file. What does not
// hold water ends the run: a version that is lost, torn or doubled is reported
// instead of a figure.
//
// The server is cmd/txcoord, built at the start of the run. Its requests to stores
// cannot be seen; they are counted apart, in a server of the same parts. With
// -profile DIR that one takes the times too, and leaves profiles of its processor.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/txcoord/txcoord/bench/contend"
	"github.com/txcoord/txcoord/bench/fairness"
	"github.com/txcoord/txcoord/bench/measure"
	"github.com/txcoord/txcoord/bench/scenario"
	"github.com/txcoord/txcoord/bench/self"
	"github.com/txcoord/txcoord/bench/upkeep"
	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/lock"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/tables/objstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == self.Command {
		stop()
		serve()
		return
	}
	if len(os.Args) > 1 && os.Args[1] == upkeep.Command {
		if err := upkeep.Step(ctx, os.Args[2:], os.Stdout); err != nil {
			stop()
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		stop()
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		os.Exit(1)
	}
}

// serve is the benchmark's own server. What ends the benchmark from the terminal
// does not end it: the benchmark does.
func serve() {
	signal.Ignore(os.Interrupt)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := self.Serve(ctx, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	run, contenders []string
	json, profile   string
	strict          bool
	simulated       bool
	keysAlong       bool
	etcd            string
	config          scenario.Config
	upkeep          upkeep.Config
	fair            fairness.Config
}

// Who takes part if nobody is named.
const (
	localContenders     = "seq,occ,dstor,txcoord,txcoord-open"
	simulatedContenders = "seq,occ,dstor,txcoord,txcoord-decided"
)

func parse(args []string, stderr io.Writer) (options, error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	var o options
	runs := f.String("run", "B1,B2,B3,B4,B6,B8,B9,replay", "which benchmarks; there are also B7, B12, B13 and fair")
	contenders := f.String("contenders", "", "who takes part; there are also txcoord-fenced, txcoord-decided, which is answered when transactions are decided, and txcoord-telemetry: txcoord with metrics, and traces of one transaction in a hundred, txcoord-access: with a token that each call shows, txcoord-observed: with both, txcoord-ungathered: that waits for nobody before an entry, and, with -stores sim, txcoord-hedged and txcoord-decided-hedged: whose puts of versions are sent twice (default "+localContenders+"; with -stores sim "+simulatedContenders+")")
	tables := f.String("tables", "1,10,50", "B1: tables per transaction")
	writers := f.String("writers", "1,8,64", "B2: writers on one table")
	f.IntVar(&o.config.Rounds, "rounds", 5, "how often the contenders take turns; B6: kills")
	f.IntVar(&o.config.Transactions, "transactions", 40, "B1: transactions per contender and round")
	f.DurationVar(&o.config.Duration, "duration", 6*time.Second, "B2, B3, fair: per contender and number of writers or choice of tables, over all rounds")
	f.IntVar(&o.config.Spread, "spread", 1000, "B3, B7: tables that there are; B3: at least three for each writer")
	f.IntVar(&o.config.Many, "many", 10_000, "B8: tables")
	f.IntVar(&o.config.History, "history", 0, "B6: transactions before the kills, in a second server beside one without")
	f.IntVar(&o.config.Growth, "growth", 1_000_000, "B7: transactions")
	f.DurationVar(&o.config.Outage, "outage", time.Minute, "B12: how long the object store refuses everything")
	f.IntVar(&o.config.Rate, "rate", 500, "B12: transactions that begin in a second")
	f.IntVar(&o.config.Races, "races", 10, "B4: races per contender and round")
	f.IntVar(&o.config.InFlight, "inflight", 1000, "B6: transactions in flight")
	f.DurationVar(&o.config.Warm, "warm", 2*time.Second, "B6: how long clients run before each kill")
	f.IntVar(&o.fair.Quota, "quota", 100, "fair: the heavy principal's commits a second")
	f.IntVar(&o.fair.Writers, "heavy", 64, "fair: its writers")
	f.IntVar(&o.upkeep.Files, "files", 1_000_000, "B9: live files")
	f.IntVar(&o.upkeep.Versions, "versions", 2_000, "replay: versions in the log")
	f.StringVar(&o.config.Dir, "dir", "", "where tables and stores go; a fresh folder that is removed afterwards if empty")
	f.StringVar(&o.json, "json", "", "also write the figures to this file")
	stores := f.String("stores", "local", "local: files and a file; sim: as slow as S3 and DynamoDB; sim-etcd: as slow as these, with keys that go along with others, as in etcd")
	f.StringVar(&o.etcd, "etcd", "", "host:port of an etcd that runs: journals, and dstor's entries, go there, below bench/")
	f.StringVar(&o.profile, "profile", "", "folder for profiles of the servers' processor")
	f.BoolVar(&o.strict, "strict", false, "fail if a goal is missed")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch *stores {
	case "local":
	case "sim", "sim-etcd":
		o.simulated, o.keysAlong = true, *stores == "sim-etcd"
	default:
		return o, fmt.Errorf("-stores %q: there are local, sim and sim-etcd", *stores)
	}
	if o.etcd != "" && o.simulated {
		return o, errors.New("-etcd goes without -stores sim, whose journals are in memory")
	}
	if *contenders == "" {
		*contenders = map[bool]string{false: localContenders, true: simulatedContenders}[o.simulated]
	}
	o.run, o.contenders = strings.Split(*runs, ","), strings.Split(*contenders, ",")
	var err, wrong error
	o.config.Tables, err = numbers(*tables)
	o.config.Writers, wrong = numbers(*writers)
	if min(o.config.Rounds, o.config.Transactions, o.config.Spread, o.config.Many, o.config.Growth, o.config.Rate, o.config.InFlight, o.config.Races, o.upkeep.Files, o.upkeep.Versions, o.fair.Quota, o.fair.Writers) < 1 {
		wrong = errors.Join(wrong, errors.New("-rounds, -transactions, -spread, -many, -growth, -rate, -inflight, -races, -files, -versions, -quota and -heavy begin at 1"))
	}
	return o, errors.Join(err, wrong)
}

func numbers(list string) ([]int, error) {
	var all []int
	for _, s := range strings.Split(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a list of numbers from 1", list)
		}
		all = append(all, n)
	}
	return all, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if o.config.Dir == "" {
		if o.config.Dir, err = os.MkdirTemp("", "txcoord-bench-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.config.Dir)) }()
	}
	o.config.Progress, o.config.Judged, o.config.Simulated = stderr, "txcoord", o.simulated
	o.config.Etcd = o.etcd != ""
	if o.simulated {
		o.config.B1Limit = simulatedLimit
	}
	o.config.Bare = contend.Bare{Objects: o.openObjects, Keys: o.openKeys}
	if o.config.Contenders, err = contenders(ctx, o); err != nil {
		return err
	}
	o.upkeep.Dir, o.upkeep.Rounds, o.upkeep.Progress = o.config.Dir, o.config.Rounds, stderr
	report := measure.NewReport(time.Now())
	for _, name := range o.run {
		if err := benchmark(ctx, name, o, report, stdout); err != nil {
			return err
		}
	}
	return finish(o, report)
}

// benchmarks are all of them, by name. Those without contenders need no server.
func benchmarks(o options) map[string]func(context.Context) (*measure.Result, error) {
	all := map[string]func(context.Context) (*measure.Result, error){
		"B9":     func(ctx context.Context) (*measure.Result, error) { return upkeep.B9(ctx, o.upkeep) },
		"replay": func(ctx context.Context) (*measure.Result, error) { return upkeep.Replay(ctx, o.upkeep) },
	}
	all["fair"] = func(ctx context.Context) (*measure.Result, error) {
		if o.profile != "" || o.simulated {
			return nil, errors.New("fair is measured with cmd/txcoord as it is: without -profile and -stores sim")
		}
		launch, err := launcher(ctx, o)
		if err != nil {
			return nil, err
		}
		c := o.fair
		c.Dir, c.Launch, c.Rounds, c.Duration, c.Progress = o.config.Dir, launch, o.config.Rounds, o.config.Duration, o.config.Progress
		return fairness.Run(ctx, c)
	}
	for name, b := range scenario.Benchmarks() {
		all[name] = func(ctx context.Context) (*measure.Result, error) { return b(ctx, o.config) }
	}
	return all
}

func benchmark(ctx context.Context, name string, o options, report *measure.Report, stdout io.Writer) error {
	b, ok := benchmarks(o)[name]
	if !ok {
		return fmt.Errorf("there is no benchmark %q", name)
	}
	r, err := b(ctx)
	if err != nil {
		return err
	}
	report.Results = append(report.Results, r)
	if err := r.WriteText(stdout); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout)
	return err
}

// finish writes the file, and says which goals were missed if that matters.
func finish(o options, report *measure.Report) error {
	if o.json != "" {
		f, err := os.Create(o.json)
		if err != nil {
			return err
		}
		if err := errors.Join(report.WriteJSON(f), f.Close()); err != nil {
			return fmt.Errorf("write %s: %w", o.json, err)
		}
	}
	if !o.strict {
		return nil
	}
	var missed []error
	for _, r := range report.Results {
		for _, g := range r.Goals {
			if !g.Met {
				missed = append(missed, fmt.Errorf("%s: %s", r.Name, g))
			}
		}
	}
	return errors.Join(missed...)
}

// contenders builds those that were asked for.
func contenders(ctx context.Context, o options) ([]contend.Contender, error) {
	if !slices.ContainsFunc(o.run, func(name string) bool { return scenario.Benchmarks()[name] != nil }) {
		return nil, nil // nobody contends
	}
	all := map[string]contend.Contender{
		"seq": contend.Seq{Objects: o.openObjects}, "occ": contend.OCC{Objects: o.openObjects},
		"dstor": contend.Dynamo{Objects: o.openObjects, Keys: o.openKeys},
	}
	if slices.ContainsFunc(o.contenders, func(name string) bool { return strings.HasPrefix(name, "txcoord") }) {
		launch, err := launcher(ctx, o)
		if err != nil {
			return nil, err
		}
		if err := looked(ctx, o, launch, all); err != nil {
			return nil, err
		}
		for name, mode := range map[string]txcoordv1.TableMode{
			"txcoord": txcoordv1.TableMode_TABLE_MODE_EXCLUSIVE, "txcoord-open": txcoordv1.TableMode_TABLE_MODE_OPEN,
			"txcoord-fenced": txcoordv1.TableMode_TABLE_MODE_FENCED, "txcoord-decided": txcoordv1.TableMode_TABLE_MODE_FENCED,
		} {
			wait := txcoordv1.Wait_WAIT_PUBLISHED
			if name == "txcoord-decided" {
				wait = txcoordv1.Wait_WAIT_DECIDED
			}
			all[name] = contend.Txcoord{
				Label: name, Objects: openFiles, Mode: mode, Wait: wait, Launch: func(dir string) (contend.Running, error) { return launch(dir) },
				Counting: func(dir string) (contend.Running, error) {
					return self.Launch(dir, o.stores(self.Options{}))
				},
				Stall: func(dir string) (contend.Running, error) {
					return self.Launch(dir, o.stores(self.Options{Stalls: true}))
				},
			}
		}
		variants(o, launch, all)
	}
	var chosen []contend.Contender
	for _, name := range o.contenders {
		c, ok := all[name]
		if !ok {
			return nil, fmt.Errorf("there is no contender %q", name)
		}
		chosen = append(chosen, c)
	}
	return chosen, nil
}

// The contenders that are looked at, and by what: by telemetry, by access control, by both.
const (
	telemetryName = "txcoord-telemetry"
	accessName    = "txcoord-access"
	observedName  = "txcoord-observed"
)

// looked adds txcoord with that on by which it is looked at: an address for scrapes, and a
// receiver of metrics and of traces of one transaction in a hundred; and that it looks at
// who calls: each call shows a token, which an access file has a role for.
func looked(ctx context.Context, o options, launch launch, all map[string]contend.Contender) error {
	names := []string{telemetryName, accessName, observedName}
	if !slices.ContainsFunc(o.contenders, func(name string) bool { return slices.Contains(names, name) }) {
		return nil
	}
	if o.profile != "" || o.simulated {
		return fmt.Errorf("contenders %v are cmd/txcoord as it is: without -profile and -stores sim", names)
	}
	sink, err := contend.NewSink(ctx)
	if err != nil {
		return fmt.Errorf("receive traces: %w", err)
	}
	token, file, err := accessFile(o.config.Dir)
	if err != nil {
		return fmt.Errorf("write an access file: %w", err)
	}
	telemetry := []string{"--admin-listen", "127.0.0.1:0", "--otlp-endpoint", sink, "--trace-sample", "0.01"}
	guarded := []string{"--access", file}
	for name, flags := range map[string][]string{telemetryName: telemetry, accessName: guarded, observedName: slices.Concat(telemetry, guarded)} {
		c := contend.Txcoord{Label: name, Objects: openFiles, Mode: txcoordv1.TableMode_TABLE_MODE_EXCLUSIVE}
		if name != telemetryName {
			c.Token = func() (string, error) { return token, nil }
		}
		c.Launch = func(dir string) (contend.Running, error) { return launch(dir, flags...) }
		all[name] = c
	}
	return nil
}

// accessFile lets the benchmark's clients in, by a token.
func accessFile(dir string) (token, file string, err error) {
	token, entry := access.NewToken("bench", nil)
	file = filepath.Join(dir, "access.yaml")
	return token, file, os.WriteFile(file, fmt.Appendf(nil, `tokens:
- {principal: %s, sha256: %s}
roles:
  bench:
  - {catalogs: ["*"], tables: ["*"], actions: [read, write, ddl, fence, admin]}
bindings:
- {role: bench, principals: ["token:%[1]s"]}
`, entry.Principal, entry.SHA256), 0o600)
}

// launch prepares a server for a folder, with more flags of serve.
type launch func(dir string, flags ...string) (contend.Running, error)

// launcher builds the server, or takes our own where a profile is wanted.
func launcher(ctx context.Context, o options) (launch, error) {
	if o.profile != "" || o.simulated {
		return func(dir string, _ ...string) (contend.Running, error) {
			kept := slices.Contains(o.run, "B6") || slices.Contains(o.run, "B8")
			return self.Launch(dir, o.stores(self.Options{Profile: profileOf(o, dir), Kept: kept}))
		}, os.MkdirAll(cmp.Or(o.profile, o.config.Dir), 0o755)
	}
	binary := filepath.Join(o.config.Dir, "txcoord")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/txcoord/txcoord/cmd/txcoord")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the server: %w\n%s", err, out)
	}
	return func(dir string, flags ...string) (contend.Running, error) {
		return contend.NewProcess(binary, dir, func(address string) []string {
			if o.config.History > 0 {
				flags = append(flags, "--maintain") // else the tables' logs have no checkpoints, and replaying them is what is measured
			}
			if o.etcd != "" {
				flags = append(flags, "--store", "etcd://"+o.etcd+"/"+self.EtcdPrefix(dir))
			}
			return append([]string{"serve", "--listen", address, "--warehouse", dir, "--log-level", "warn"}, flags...)
		})
	}, nil
}

// profileOf names a session's profile for its folder: b1-10-txcoord.cpu.
func profileOf(o options, dir string) string {
	if o.profile == "" {
		return ""
	}
	rel, err := filepath.Rel(o.config.Dir, dir)
	if err != nil {
		rel = filepath.Base(dir)
	}
	return filepath.Join(o.profile, strings.ReplaceAll(rel, string(filepath.Separator), "-")+".cpu")
}

// simulatedLimit is B1Limit over simulated stores: what is not waiting for them is to
// be little.
const simulatedLimit = 1.15

// openFiles is where tables are made before the clock runs.
func openFiles(dir string) (objstore.Store, error) { return self.OpenObjects(dir, false) }

func (o options) openObjects(dir string) (objstore.Store, error) {
	return self.OpenObjects(dir, o.simulated)
}

func (o options) openKeys(dir string) (lock.Store, error) {
	return self.OpenKeys(dir, o.stores(self.Options{}))
}

// stores are the options of a server with the stores that the flags choose.
func (o options) stores(with self.Options) self.Options {
	with.Simulated, with.KeysAlong, with.Etcd = o.simulated, o.keysAlong, o.etcd
	return with
}
