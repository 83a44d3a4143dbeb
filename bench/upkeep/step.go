package upkeep

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/txcoord/txcoord/bench/contend"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/fileobj"
)

// Step is the process that does one step; its arguments are those after Command.
func Step(ctx context.Context, args []string, stdout io.Writer) error {
	var s step
	if len(args) != 1 {
		return errors.New("one argument is expected: the step")
	}
	if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
		return fmt.Errorf("read the step: %w", err)
	}
	o, err := s.do(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(o)
}

func (s step) do(ctx context.Context) (outcome, error) {
	files, err := fileobj.New(s.Dir, fileobj.Config{SettleWithin: -1})
	if err != nil {
		return outcome{}, err
	}
	counter := &contend.Counter{}
	log := logOf(s.Dir, contend.CountObjects(files, counter))
	debug.FreeOSMemory()
	o := outcome{Idle: resident("VmRSS:")}
	began := time.Now()
	switch s.Op {
	case opCheckpoint:
		err = o.checkpoint(ctx, log, s.Dir)
	case opState:
		err = o.state(ctx, tables.NewLog(log))
	case opFiles:
		err = o.liveFiles(ctx, tables.NewLog(log))
	default:
		err = fmt.Errorf("no step %q", s.Op)
	}
	o.Nanoseconds = int64(time.Since(began))
	o.Peak, o.Requests = resident("VmHWM:"), counter.Requests()
	return o, err
}

func (o *outcome) checkpoint(ctx context.Context, log tables.LogConfig, dir string) error {
	k := tables.NewKeeper(tables.KeeperConfig{Log: log, Format: checkpoint.Format(), TempDir: filepath.Dir(dir)})
	survey, err := k.Survey(ctx, tables.Latest)
	if err != nil {
		return err
	}
	c, err := k.Checkpoint(ctx, survey, nil)
	if err != nil {
		return err
	}
	o.Version, o.Files, o.Bytes, o.Sidecars, o.Reused = int64(c.Version), c.Adds, c.Bytes, c.Sidecars, c.Reused
	return nil
}

func (o *outcome) state(ctx context.Context, log *tables.Log) error {
	s, err := log.State(ctx, tables.Latest)
	if err != nil {
		return err
	}
	o.Version, o.Files = int64(s.Version()), int64(s.NumFiles())
	return nil
}

func (o *outcome) liveFiles(ctx context.Context, log *tables.Log) error {
	all, err := log.LiveFiles(ctx, tables.Latest)
	o.Files = int64(len(all))
	return err
}

func logOf(dir string, s objstore.Store) tables.LogConfig {
	return tables.LogConfig{Store: s, URI: "file://" + filepath.ToSlash(dir), ReadCheckpoint: checkpoint.Read}
}

// resident is a line of what Linux says of this process' memory; 0 elsewhere.
func resident(line string) int64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), line); ok {
			var kib int64
			if _, err := fmt.Sscanf(rest, "%d kB", &kib); err == nil {
				return kib << 10
			}
		}
	}
	return 0
}
