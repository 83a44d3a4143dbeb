//go:build unix

package boltstore_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/boltstore"
)

// What a copy of this binary is to do instead of testing, and with which file.
const (
	childTask = "BOLTSTORE_TEST_CHILD"
	childFile = "BOLTSTORE_TEST_FILE"
)

var kills = flag.Int("kills", 8, "how often to kill a process that writes")

func TestMain(m *testing.M) {
	tasks := map[string]func(path string) error{"write": writeForEver, "fill": fillTheDisk, "hold": holdTheFile}
	if task, ok := tasks[os.Getenv(childTask)]; ok {
		if err := task(os.Getenv(childFile)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func child(task, path string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childTask+"="+task, childFile+"="+path)
	cmd.Stderr = os.Stderr
	return cmd
}

// writeForEver puts from many goroutines and prints what was acknowledged: key,
// revision, value, in one write each.
func writeForEver(path string) error {
	s, err := boltstore.Open(path, boltstore.Config{})
	if err != nil {
		return err
	}
	errs := make(chan error)
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("%d/%d", w, rand.IntN(100))
				value := strings.Repeat(fmt.Sprintf("%d.%d.%d,", os.Getpid(), w, i), 1+rand.IntN(200))
				rev, err := s.Put(context.Background(), key, []byte(value), lock.Always())
				if err != nil {
					errs <- err
					return
				}
				_, _ = os.Stdout.WriteString(key + " " + string(rev) + " " + value + "\n")
			}
		}()
	}
	return <-errs
}

// acknowledged is the newest that a killed process said of a key. Each key has one
// writer at a time, so what it was about to say is the only other thing that may
// stand there.
type acknowledged struct {
	rev   lock.Revision
	value string
}

// Everything that a killed process acknowledged is there.
func TestKilledWhileWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	known := map[string]acknowledged{}
	lines := 0
	for range *kills {
		lines += writeAndKill(t, path, known)
		checkAcknowledged(t, path, known)
	}
	if lines < *kills {
		t.Errorf("%d puts acknowledged before %d kills: nothing was tested", lines, *kills)
	}
	t.Logf("%d puts acknowledged before %d kills", lines, *kills)
}

func writeAndKill(t *testing.T, path string, known map[string]acknowledged) (lines int) {
	t.Helper()
	cmd := child("write", path)
	out, err := cmd.StdoutPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	kill := func() { _ = cmd.Process.Kill() }
	in := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			break // The last line may be cut: it was not said.
		}
		// From the first acknowledgement on, at any moment.
		once.Do(func() { time.AfterFunc(time.Duration(rand.IntN(150_000))*time.Microsecond, kill) })
		lines++
		var key, rev, value string
		if _, err := fmt.Sscan(line, &key, &rev, &value); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		known[key] = acknowledged{lock.Revision(rev), value}
	}
	_ = cmd.Wait() // It was killed.
	return lines
}

func checkAcknowledged(t *testing.T, path string, known map[string]acknowledged) {
	t.Helper()
	s, err := boltstore.Open(path, boltstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for key, want := range known {
		item, err := s.Get(t.Context(), key)
		if err != nil || item.Revision == want.rev && string(item.Value) != want.value || number(item.Revision) < number(want.rev) {
			t.Errorf("%s was acknowledged at %s, and stands at %q: %v", key, want.rev, item.Revision, err)
		}
	}
}

// number looks into a revision of this store, as only its own test may.
func number(rev lock.Revision) (n uint64) {
	if _, err := fmt.Sscan(string(rev), &n); err != nil {
		return 0
	}
	return n
}

// holdTheFile opens it, says so, and waits to be killed.
func holdTheFile(path string) error {
	if _, err := boltstore.Open(path, boltstore.Config{}); err != nil {
		return err
	}
	fmt.Println("open")
	time.Sleep(time.Hour) // not select{}: without the race detector that is a deadlock, which ends the process
	return nil
}

// A second process is told at once what is wrong, and a killed one is in nobody's way.
func TestSecondProcessIsRefusedQuickly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	cmd := child("hold", path)
	out, err := cmd.StdoutPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	_, err = bufio.NewReader(out).ReadString('\n')
	// A machine with other things to do may hold a refusal up, but not all of them.
	quickest := time.Hour
	for range 10 {
		start := time.Now()
		wantOpenError(t, path, "another process", "stop that one", "a file of its own")
		if quickest = min(quickest, time.Since(start)); quickest <= time.Second {
			break
		}
	}
	if quickest > time.Second {
		t.Errorf("the quickest of ten refusals took %v", quickest)
	}
	if err := errors.Join(err, cmd.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // It was killed.
	s, err := boltstore.Open(path, boltstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A disk that is full fails commits, and loses nothing that was acknowledged. It
// runs in a process of its own, whose files may not grow.
func TestFullDisk(t *testing.T) {
	if out, err := child("fill", filepath.Join(t.TempDir(), "store.db")).Output(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func fillTheDisk(path string) error {
	s, err := boltstore.Open(path, boltstore.Config{})
	if err != nil {
		return err
	}
	var limits syscall.Rlimit
	if err := syscall.Getrlimit(rlimitFSize, &limits); err != nil {
		return err
	}
	enough := limits.Cur
	limits.Cur = 64 << 10
	if err := syscall.Setrlimit(rlimitFSize, &limits); err != nil {
		return err
	}
	n, err := putUntilItFails(s)
	if !errors.Is(err, lock.ErrUnknown) {
		return fmt.Errorf("put %d on a full disk: %w", n, err)
	}
	limits.Cur = enough
	if err := syscall.Setrlimit(rlimitFSize, &limits); err != nil {
		return err
	}
	if err := countItems(s, n); err != nil {
		return fmt.Errorf("there is room again: %w", err)
	}
	if err := s.Close(); err != nil {
		return err
	}
	again, err := boltstore.Open(path, boltstore.Config{})
	if err != nil {
		return err
	}
	return errors.Join(countItems(again, n), again.Close())
}

// rlimitFSize is RLIMIT_FSIZE, which package syscall does not name everywhere.
const rlimitFSize = 1

func putUntilItFails(s *boltstore.Store) (n int, err error) {
	for ; n < 100; n++ {
		if _, err := s.Put(context.Background(), fmt.Sprintf("k/%03d", n), make([]byte, 4000), lock.IfAbsent()); err != nil {
			return n, err
		}
	}
	return n, errors.New("the disk is never full")
}

// countItems wants the acknowledged ones; the one that failed may be there too.
func countItems(s *boltstore.Store, n int) error {
	page, err := s.Scan(context.Background(), "k/", "", 0)
	if err != nil || len(page) < n || len(page) > n+1 {
		return fmt.Errorf("%d items, %w, and %d were acknowledged", len(page), err, n)
	}
	return nil
}
