package engines

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// Session is a running engine. Its methods may be called by several goroutines;
// statements are carried out one after the other.
type Session struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr *os.File
	ended  chan struct{}
	once   sync.Once // of its end

	mu    sync.Mutex
	lines *bufio.Scanner
}

// Row is one row of an answer. Numbers are json.Number.
type Row map[string]any

// Int is a column that holds a whole number.
func (r Row) Int(column string) int64 {
	n, ok := r[column].(json.Number)
	if !ok {
		panic(fmt.Sprintf("%s is %v in %v, and no number", column, r[column], r))
	}
	i, err := n.Int64()
	if err != nil {
		panic(fmt.Sprintf("%s in %v: %v", column, r, err))
	}
	return i
}

// Refusal is what an engine answers to a statement that it does not carry out.
type Refusal struct {
	Engine string
	// Kind is the exception's class, Text what it says.
	Kind, Text string
}

func (r *Refusal) Error() string { return r.Engine + " refuses: " + r.Kind + ": " + r.Text }

// ErrEnded: the process is gone, and nobody knows what became of the statement.
var ErrEnded = errors.New("the engine has ended")

// longestAnswer is what one line of an engine may take.
const longestAnswer = 16 << 20

// start starts a script and returns when it says that it is ready. hello is its
// first line of input. The test's end ends it.
func start(t testing.TB, name, python, script string, environment []string, hello any) *Session {
	t.Helper()
	s := &Session{name: name, cmd: exec.Command(python, "-E", "-s", "-c", script), ended: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), environment...)
	ownGroup(s.cmd)
	var err error
	if s.stderr, err = os.Create(t.TempDir() + "/stderr"); err != nil {
		t.Fatal(err)
	}
	s.cmd.Stderr = s.stderr
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	t.Cleanup(s.Kill)
	s.lines = bufio.NewScanner(out)
	s.lines.Buffer(nil, longestAnswer)
	if _, err := s.call(hello); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	return s
}

// answer is one line of output.
type answer struct {
	Rows []Row
	Kind string
	Text string
}

// do sends a request and waits for the answer. The end of ctx kills the engine:
// there is no other way to take a statement back.
func (s *Session) do(ctx context.Context, request any) ([]Row, error) {
	stop := context.AfterFunc(ctx, s.Kill)
	defer stop()
	rows, err := s.call(request)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(err, ctx.Err())
	}
	return rows, err
}

func (s *Session) call(request any) ([]Row, error) {
	line, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.stdin.Write(append(line, '\n')); err != nil {
		return nil, s.gone()
	}
	if !s.lines.Scan() {
		return nil, s.gone()
	}
	var a answer
	d := json.NewDecoder(bytes.NewReader(s.lines.Bytes()))
	d.UseNumber()
	if err := d.Decode(&a); err != nil {
		return nil, fmt.Errorf("%s said %q: %w", s.name, s.lines.Text(), err)
	}
	if a.Kind != "" {
		return nil, &Refusal{Engine: s.name, Kind: a.Kind, Text: a.Text}
	}
	return a.Rows, nil
}

// gone is the error of a session that does not answer any more.
func (s *Session) gone() error {
	b, _ := os.ReadFile(s.stderr.Name())
	text := strings.TrimSpace(string(b))
	return fmt.Errorf("%s: %w: %s", s.name, ErrEnded, text[max(0, len(text)-2000):])
}

// Kill ends the engine and all that it started with SIGKILL, wherever it is, and
// returns when it is gone. A second call does nothing.
func (s *Session) Kill() {
	s.end()
	<-s.ended
}
