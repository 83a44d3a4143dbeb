package fileobj_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/fileobj"
)

// racerFolder tells a copy of this binary to race in that folder.
const racerFolder = "FILEOBJ_TEST_RACE_IN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(racerFolder); dir != "" {
		if err := raceIn(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const (
	processes = 4
	writers   = 3
	keys      = 150
)

// raceIn puts the keys, in rounds that the parent starts by a line each, and
// prints the contents that were acknowledged.
func raceIn(dir string) error {
	s, err := fileobj.New(dir, fileobj.Config{})
	if err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	for key := range keys {
		if _, err := in.ReadString('\n'); err != nil {
			return err
		}
		var wg sync.WaitGroup
		won := make([]string, writers)
		for w := range writers {
			wg.Go(func() { won[w] = tryPut(s, key, w) })
		}
		wg.Wait()
		fmt.Println(strings.Join(slices.DeleteFunc(won, func(s string) bool { return s == "" }), " "))
	}
	return nil
}

// tryPut answers with the content if it was acknowledged, "" if it was refused.
func tryPut(s *fileobj.Store, key, writer int) string {
	content := fmt.Sprintf("%d/%d", os.Getpid(), writer)
	err := s.PutIfAbsent(context.Background(), fmt.Sprintf("log/%d", key), []byte(content))
	switch {
	case err == nil:
		return content
	case errors.Is(err, objstore.ErrExists):
		return ""
	default:
		return err.Error()
	}
}

type racer struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func startRacer(t *testing.T, dir string) racer {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), racerFolder+"="+dir)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Errorf("racer: %v", err)
		}
	})
	return racer{in, bufio.NewReader(out)}
}

// Of all writers of all processes one wins each key, and its bytes are there.
func TestProcessesRace(t *testing.T) {
	dir := t.TempDir()
	var racers []racer
	for range processes {
		racers = append(racers, startRacer(t, dir))
	}
	s := open(t, dir, fileobj.Config{})
	winners := map[string]bool{}
	for key := range keys {
		won := oneRound(t, racers)
		if len(won) != 1 {
			t.Fatalf("key %d: won by %q", key, won)
		}
		got, _, err := s.Get(t.Context(), fmt.Sprintf("log/%d", key), objstore.Range{})
		if err != nil || string(got) != won[0] {
			t.Fatalf("key %d: holds %q, %v, won by %q", key, got, err, won[0])
		}
		pid, _, _ := strings.Cut(won[0], "/")
		winners[pid] = true
	}
	if len(winners) < 2 {
		t.Errorf("one process won every race: there was none")
	}
}

// oneRound starts all racers, then collects.
func oneRound(t *testing.T, racers []racer) (won []string) {
	t.Helper()
	for _, r := range racers {
		if _, err := fmt.Fprintln(r.in); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range racers {
		line, err := r.out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		won = append(won, strings.Fields(line)...)
	}
	return won
}
