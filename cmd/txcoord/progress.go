package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// quiet is how long nothing is said.
const quiet = time.Second

// progress is a line on a terminal that says what takes so long.
type progress struct {
	w     io.Writer
	start time.Time
	done  chan struct{}
	once  sync.Once
	ended sync.WaitGroup

	mu    sync.Mutex
	doing string
	shown int // characters on the line
}

// progress begins to watch the time. Without a terminal nothing is ever shown.
func (s *session) progress(doing string) *progress {
	if !isTerminal(s.err) {
		return &progress{done: make(chan struct{})}
	}
	return watchTime(s.err, doing)
}

func watchTime(w io.Writer, doing string) *progress {
	p := &progress{w: w, start: time.Now(), done: make(chan struct{}), doing: doing}
	p.ended.Go(p.run)
	return p
}

// now says what is being done at the moment.
func (p *progress) now(format string, args ...any) {
	if p == nil { // no call runs yet
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doing = fmt.Sprintf(format, args...)
}

func (p *progress) run() {
	tick := time.NewTicker(quiet / 4)
	defer tick.Stop()
	for {
		select {
		case <-p.done:
			p.draw("")
			return
		case <-tick.C:
			if took := time.Since(p.start); took >= quiet {
				p.mu.Lock()
				line := fmt.Sprintf("%s … %d s", p.doing, int(took.Seconds()))
				p.mu.Unlock()
				p.draw(line)
			}
		}
	}
}

// draw replaces the line.
func (p *progress) draw(line string) {
	if line == "" && p.shown == 0 {
		return
	}
	fmt.Fprintf(p.w, "\r%-*s\r%s", p.shown, "", line)
	p.shown = len([]rune(line))
}

// end takes the line away. It may be called again.
func (p *progress) end() {
	p.once.Do(func() { close(p.done) })
	p.ended.Wait()
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
