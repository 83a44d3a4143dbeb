package e2e_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/txcoord/txcoord/e2e/servers"
)

// leaks are the places where a server of any test has written a secret. Each life's log
// and trace is searched when the process has ended, before the test's folder is gone;
// TestMain fails the run for what was found.
var leaks leakList

type leakList struct {
	mu    sync.Mutex
	found []string
}

func (l *leakList) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.found
}

// search notes the lines of files that hold a secret. A file that cannot be read is noted,
// too; one that is not there has said nothing.
func (l *leakList) search(files ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range files {
		line, err := lineWith(name, servers.Secret)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			l.found = append(l.found, err.Error())
		case line != "":
			l.found = append(l.found, name+": "+line)
		}
	}
}

// lineWith is the first line of a file that holds a text; empty if none does.
func lineWith(name, text string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		if bytes.Contains(line, []byte(text)) {
			return strings.TrimSpace(string(line)), nil
		}
		if errors.Is(err, io.EOF) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
	}
}

func TestLeaksAreFound(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(name, []byte("one\ntwo "+servers.Secret+" two\nthree"), 0o600); err != nil {
		t.Fatal(err)
	}
	var l leakList
	l.search(name, name+".none", filepath.Dir(name))
	if found := l.all(); len(found) != 2 || !strings.Contains(found[1], "is a directory") || !strings.HasSuffix(found[0], ": two "+servers.Secret+" two") {
		t.Errorf("found %q", found)
	}
}
