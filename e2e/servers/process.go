//go:build unix

package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Process is a server that can be ended roughly, held up, and started again with
// the data that it left behind.
type Process struct {
	name string
	args []string
	env  []string
	dir  string
	// ready returns once the server answers.
	ready func(ctx context.Context) error

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
	stdin  io.Closer
	output *output
}

// startLimit is how long a server may take until it answers.
const startLimit = 60 * time.Second

// Start starts the process and waits until it answers. One that was killed comes
// back with the same address.
func (p *Process) Start(ctx context.Context) error {
	if err := p.launch(); err != nil {
		return err
	}
	return p.Ready(ctx)
}

func (p *Process) launch() error {
	cmd := exec.Command(p.name, p.args...)
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), p.env...)
	cmd.SysProcAttr = dieWithParent()
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("%w: start %s: %w", ErrUnavailable, filepath.Base(p.name), err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // How it ended is in its output.
		close(exited)
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.exited, p.stdin, p.output = cmd, exited, stdin, out
	return nil
}

// Ready waits until the server answers.
func (p *Process) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	exited := p.gone()
	for {
		err := p.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-exited:
			return fmt.Errorf("%s ended: %s", filepath.Base(p.name), p.Output())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w: %s", filepath.Base(p.name), errors.Join(err, ctx.Err()), p.Output())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// gone is closed when the process that was started last has ended.
func (p *Process) gone() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exited
}

// Kill ends it at once, as a crash would, and returns when it is gone.
func (p *Process) Kill() { p.end(syscall.SIGKILL) }

// Stop asks it to end, and returns when it is gone.
func (p *Process) Stop() {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.gone():
	case <-time.After(10 * time.Second):
	}
	p.Kill()
}

// Pause stops it where it is, until Resume: it neither answers nor goes away. The
// signal reaches each thread in its own time; Pause returns when all have stopped.
func (p *Process) Pause() {
	p.signal(syscall.SIGSTOP)
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && !p.stopped(); {
		time.Sleep(time.Millisecond)
	}
}

// stopped looks at the threads as Linux shows them; elsewhere it never says so, and
// Pause just takes its time.
func (p *Process) stopped() bool {
	p.mu.Lock()
	cmd := p.cmd
	p.mu.Unlock()
	if cmd == nil {
		return true
	}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", cmd.Process.Pid))
	for _, file := range threads {
		stat, err := os.ReadFile(file)
		// pid (name) state …
		if i := bytes.LastIndexByte(stat, ')'); err == nil && i >= 0 && !bytes.HasPrefix(stat[i+1:], []byte(" T")) {
			return false
		}
	}
	return len(threads) > 0
}

// Resume lets it go on, not knowing that time has passed.
func (p *Process) Resume() { p.signal(syscall.SIGCONT) }

func (p *Process) end(sig syscall.Signal) {
	p.mu.Lock()
	exited, stdin := p.exited, p.stdin
	p.mu.Unlock()
	if exited == nil {
		return
	}
	p.signal(sig)
	<-exited
	_ = stdin.Close() // It is gone.
}

// signal does nothing to a process that is gone.
func (p *Process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(sig)
	}
}

// Output is the end of what the process has printed since its last start.
func (p *Process) Output() string {
	p.mu.Lock()
	out := p.output
	p.mu.Unlock()
	if out == nil {
		return ""
	}
	return tail(out.bytes())
}

// output keeps what a process prints, the newest if it prints much.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	const most = 64 << 10
	if o.buf.Len() > most {
		o.buf.Next(o.buf.Len() - most/2)
	}
	return o.buf.Write(b)
}

func (o *output) bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.buf.Bytes())
}

// freePorts are ports that nobody listens on now. Somebody may, until the server
// does: callers try again with others.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}
