package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// demoServer is a server in a process of its own. It may be killed and started
// again; the address stays.
type demoServer struct {
	binary    string
	warehouse string
	address   string // empty until the first start
	log       *os.File

	cmd   *exec.Cmd
	ended chan error
	dying atomic.Bool
}

// startLimit is how long a server may take to say that it serves.
const startLimit = 10 * time.Second

func newDemoServer(warehouse string) (*demoServer, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	log, err := os.Create(filepath.Join(warehouse, "server.log"))
	if err != nil {
		return nil, err
	}
	return &demoServer{binary: binary, warehouse: warehouse, log: log}, nil
}

// start returns once the server answers. The process lives until it is killed or
// stopped; close sees to it.
func (d *demoServer) start() error {
	listen := d.address
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	cmd := exec.Command(d.binary, "serve", "--warehouse", d.warehouse, "--listen", listen)
	cmd.Stderr = d.log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	d.cmd, d.ended = cmd, make(chan error, 1)
	d.dying.Store(false)
	ready := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n') // an empty line says that it did not start
		ready <- line
		d.ended <- cmd.Wait()
	}()
	select {
	case line := <-ready:
		if !strings.Contains(line, " on ") {
			return fmt.Errorf("the server did not start (%w); see %s", <-d.ended, d.log.Name())
		}
		d.address = strings.TrimSpace(line[strings.LastIndex(line, " on ")+len(" on "):])
		return nil
	case <-time.After(startLimit):
		return errors.Join(fmt.Errorf("the server did not start within %s; see %s", startLimit, d.log.Name()), d.kill())
	}
}

func (d *demoServer) pid() int { return d.cmd.Process.Pid }

// kill is kill -9, and returns when the process is gone.
func (d *demoServer) kill() error {
	d.dying.Store(true)
	if err := d.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the server: %w", err)
	}
	var killed *exec.ExitError
	if err := <-d.ended; err != nil && !errors.As(err, &killed) {
		return fmt.Errorf("wait for the killed server: %w", err)
	}
	return nil
}

// stop asks the server to end, and wants it to end well.
func (d *demoServer) stop() error {
	d.dying.Store(true)
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the server: %w", err)
	}
	if err := <-d.ended; err != nil {
		return fmt.Errorf("the server ended badly (%w); see %s", err, d.log.Name())
	}
	return nil
}

// close ends whatever is left of it.
func (d *demoServer) close() error {
	if d.cmd != nil && !d.dying.Load() {
		if err := d.kill(); err != nil {
			return err
		}
	}
	return d.log.Close()
}

// pause holds the process still, so that what it is in the middle of can be looked
// at without hurry; resume lets it go on as if nothing had been.
func (d *demoServer) pause() error {
	if err := d.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("pause the server: %w", err)
	}
	// The signal reaches other threads a moment later.
	time.Sleep(settle)
	return nil
}

func (d *demoServer) resume() error {
	if err := d.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("resume the server: %w", err)
	}
	return nil
}

// settle is longer than a system call that a stopped process finishes.
const settle = 5 * time.Millisecond
