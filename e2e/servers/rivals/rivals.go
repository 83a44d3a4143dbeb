// Package rivals races clients of one store in several processes: copies of the
// test's own binary, each with a connection of its own. What one process cannot
// show, such as a lock that excludes only its own goroutines, shows here.
package rivals

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/txcoord/txcoord/lock"
)

// variable tells a copy of the binary that it is one: its spec, as JSON.
const variable = "TXCOORD_TEST_RIVAL"

// Config says what the processes do.
type Config struct {
	// Processes that race, and Writers, goroutines, in each.
	Processes, Writers int
	// Keys that all race for, and Increments of one counter by each writer.
	Keys, Increments int
	// Limit bounds a process's life.
	Limit time.Duration
}

type spec struct {
	Config
	ID int
	// Where is passed to the function that opens the store.
	Where string
}

// Main does a rival's work if this process is one, and reports whether it is: call
// it first in TestMain. open connects to the store that Race was told of.
func Main(open func(ctx context.Context, where string) (lock.Store, error)) bool {
	var s spec
	text, ok := os.LookupEnv(variable)
	if !ok {
		return false
	}
	err := json.Unmarshal([]byte(text), &s)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), s.Limit)
		defer cancel()
		err = work(ctx, s, open)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// work opens the store, waits for the start, races, and prints what it was told.
func work(ctx context.Context, s spec, open func(ctx context.Context, where string) (lock.Store, error)) error {
	store, err := open(ctx, s.Where)
	if err != nil {
		return err
	}
	fmt.Println(`"ready"`)
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	told := race(ctx, s, store)
	return errors.Join(json.NewEncoder(os.Stdout).Encode(told), store.Close())
}

// Race starts the processes, lets them go at once and holds what they were told
// against what stands in the store afterwards. where is for the function that
// opens the store.
func Race(t *testing.T, store lock.Store, where string, cfg Config) {
	t.Helper()
	if cfg.Limit == 0 {
		cfg.Limit = time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), cfg.Limit+10*time.Second)
	defer cancel()
	if _, err := store.Put(ctx, counter, []byte("0"), lock.IfAbsent()); err != nil {
		t.Fatal(err)
	}
	var rivals []*rival
	for i := range cfg.Processes {
		r, err := start(ctx, spec{cfg, i, where})
		if err != nil {
			t.Fatal(err)
		}
		rivals = append(rivals, r)
	}
	began := time.Now()
	for _, r := range rivals {
		if _, err := r.in.WriteString("go\n"); err != nil {
			t.Fatal(err)
		}
	}
	var all []*told
	for _, r := range rivals {
		got, err := r.finish()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, got)
	}
	judge(t, store, cfg, all)
	t.Logf("%d processes with %d writers each: %v", cfg.Processes, cfg.Writers, time.Since(began).Round(time.Millisecond))
}

// rival is one process.
type rival struct {
	cmd *exec.Cmd
	in  *os.File
	out *json.Decoder
}

// start returns once the process is connected.
func start(ctx context.Context, s spec) (*rival, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), variable+"="+string(text))
	cmd.Stderr = os.Stderr
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdin = read
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err := errors.Join(err, read.Close()); err != nil {
		return nil, err
	}
	r := &rival{cmd, write, json.NewDecoder(out)}
	var ready string
	if err := r.out.Decode(&ready); err != nil {
		return nil, fmt.Errorf("rival %d: %w", s.ID, errors.Join(err, cmd.Wait()))
	}
	return r, nil
}

func (r *rival) finish() (got *told, err error) {
	got = &told{}
	err = r.out.Decode(got)
	return got, errors.Join(err, r.cmd.Wait(), r.in.Close())
}

// judge holds everything that was told against the store.
func judge(t *testing.T, store lock.Store, cfg Config, all []*told) {
	t.Helper()
	for i := range cfg.Keys {
		judgeKey(t, store, key(i), all)
	}
	done, unknown := 0, 0
	for _, got := range all {
		done += got.Increments
		unknown += got.Unknown
		for _, problem := range got.Problems {
			t.Error(problem)
		}
	}
	item, err := store.Get(t.Context(), counter)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(string(item.Value))
	if err != nil || n < done || n > done+unknown || done == 0 {
		t.Errorf("the counter stands at %q after %d increments and %d unknown ones", item.Value, done, unknown)
	}
}

func judgeKey(t *testing.T, store lock.Store, key string, all []*told) {
	t.Helper()
	var winners []string
	unknown := 0
	for _, got := range all {
		winners = append(winners, got.Won[key]...)
		unknown += got.Lost[key]
	}
	item, err := store.Get(t.Context(), key)
	switch {
	case err != nil:
		t.Errorf("get %s: %v", key, err)
	case len(winners) > 1 || len(winners) == 0 && unknown == 0:
		t.Errorf("%s was won by %q, with %d unknown", key, winners, unknown)
	case len(winners) == 1 && string(item.Value)+"@"+string(item.Revision) != winners[0]:
		t.Errorf("%s was won by %s, and stands at %s@%s", key, winners[0], item.Value, item.Revision)
	}
}
