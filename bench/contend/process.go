package contend

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Process is a server in a process of its own, on a loopback port.
type Process struct {
	binary  string
	args    []string
	address string
	log     string
	cmd     *exec.Cmd
	ended   *ending
}

// ending is how a process ended, once done is closed.
type ending struct {
	done chan struct{}
	err  error
}

// NewProcess prepares a server. args gets the address to listen on, which stays
// the same over restarts. What the server writes goes to server.log in the folder.
func NewProcess(binary, dir string, args func(address string) []string) (*Process, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, fmt.Errorf("find a port: %w", err)
	}
	return &Process{binary: binary, args: args(address), address: address, log: filepath.Join(dir, "server.log")}, nil
}

// FreeAddress finds a loopback port that nobody listens on. Another process may
// take it before we do; then the server says so.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Start starts the process and returns at once.
func (p *Process) Start() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command(p.binary, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		p.cmd = nil
		return err
	}
	p.ended = &ending{done: make(chan struct{})}
	go func(cmd *exec.Cmd, e *ending) {
		e.err = cmd.Wait()
		close(e.done)
	}(p.cmd, p.ended)
	return nil
}

// Target is the address.
func (p *Process) Target() string { return "passthrough:///" + p.address }

// Requests are not seen from outside.
func (p *Process) Requests() Requests { return nil }

// Kill sends SIGKILL and waits.
func (p *Process) Kill() error {
	if p.cmd == nil {
		return errors.New("kill: the server does not run")
	}
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill server: %w", err)
	}
	<-p.ended.done
	p.cmd = nil
	return nil
}

// stopLimit is how long a server may take to end.
const stopLimit = 20 * time.Second

// Stop sends SIGTERM and waits. A server that had ended by itself, or that does
// not end properly, is an error.
func (p *Process) Stop() error {
	if p.cmd == nil {
		return nil
	}
	defer func() { p.cmd = nil }()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("the server has ended by itself: %w, %s", err, p.tail())
	}
	select {
	case <-p.ended.done:
		if err := p.ended.err; err != nil {
			return fmt.Errorf("stop server: %w, %s", err, p.tail())
		}
		return nil
	case <-time.After(stopLimit):
		return errors.Join(fmt.Errorf("stop server: still there after %s", stopLimit), p.Kill())
	}
}

// tail is the end of the server's log.
func (p *Process) tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return "its log ends with: " + string(b[max(0, len(b)-800):])
}
