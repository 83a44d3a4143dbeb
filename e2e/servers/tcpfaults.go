//go:build unix

package servers

import (
	"encoding/binary"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TCPFaults is a proxy on the level of bytes. It cuts and partitions any protocol,
// and loses answers of HTTP/2, hence of gRPC.
type TCPFaults struct {
	// Addr is its address, host and port.
	Addr string

	listener net.Listener
	lose     atomic.Bool
	silent   atomic.Bool
	delay    atomic.Int64

	mu     sync.Mutex
	target string
	conns  map[net.Conn]bool
	closed bool
	done   sync.WaitGroup
}

// NewTCPFaults puts a proxy in front of a server, for the duration of a test. The
// target is a URL, or host and port.
func NewTCPFaults(t testing.TB, target string) *TCPFaults {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen for a proxy: %v", err)
	}
	f := &TCPFaults{Addr: l.Addr().String(), target: host(target), listener: l, conns: map[net.Conn]bool{}}
	f.done.Go(f.accept)
	t.Cleanup(f.close)
	return f
}

func (f *TCPFaults) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	_ = f.listener.Close()
	f.Cut()
	f.done.Wait()
}

func host(target string) string {
	if _, rest, ok := strings.Cut(target, "://"); ok {
		return rest
	}
	return target
}

// Redirect leads to another server from now on, and cuts the connections to the old one.
func (f *TCPFaults) Redirect(target string) {
	f.mu.Lock()
	f.target = host(target)
	f.mu.Unlock()
	f.Cut()
}

// LoseReply loses the next answer: the server has carried the request out, and its
// connection is cut before the client hears so. Meant for a client that sends one
// request at a time.
func (f *TCPFaults) LoseReply() { f.lose.Store(true) }

// Cut closes all connections; new ones are taken.
func (f *TCPFaults) Cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		_ = c.Close()
	}
}

// Silence holds back all bytes, both ways, until it is called with false: a
// partition in which nobody is told anything.
func (f *TCPFaults) Silence(on bool) { f.silent.Store(on) }

// Delay holds every piece back for a while.
func (f *TCPFaults) Delay(d time.Duration) { f.delay.Store(int64(d)) }

func (f *TCPFaults) accept() {
	for {
		client, err := f.listener.Accept()
		if err != nil {
			return // The test is over.
		}
		f.mu.Lock()
		target := f.target
		f.mu.Unlock()
		server, err := net.Dial("tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !f.keep(client, server) {
			return
		}
		f.done.Go(func() { f.pump(server, client, nil) })
		f.done.Go(func() { f.pump(client, server, &answers{}) })
	}
}

func (f *TCPFaults) keep(conns ...net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range conns {
		if f.closed {
			_ = c.Close()
		}
		f.conns[c] = true
	}
	return !f.closed
}

// pump copies one way until either end is gone, and then ends both.
func (f *TCPFaults) pump(to, from net.Conn, watch *answers) {
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, c := range []net.Conn{to, from} {
			_ = c.Close()
			delete(f.conns, c)
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		f.holdUp(to)
		if watch != nil {
			if at, ok := watch.end(buf[:n]); ok && f.lose.CompareAndSwap(true, false) {
				_, _ = to.Write(buf[:at])
				return
			}
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// holdUp returns once bytes may go on.
func (f *TCPFaults) holdUp(to net.Conn) {
	time.Sleep(time.Duration(f.delay.Load()))
	for f.silent.Load() && f.known(to) {
		time.Sleep(5 * time.Millisecond)
	}
}

func (f *TCPFaults) known(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conns[c] && !f.closed
}

// answers finds the ends of answers in what an HTTP/2 server sends.
type answers struct {
	// header of the frame under way, as far as it has come; rest is what is still to
	// come of its payload.
	header []byte
	rest   int
}

// The layout of HTTP/2 frames (RFC 9113, section 4.1).
const (
	frameHeader    = 9
	headersFrame   = 0x1
	endStreamFlags = 0x1
)

// end returns where in the bytes the frame begins that ends an answer. Without one,
// ok is false.
func (a *answers) end(b []byte) (at int, ok bool) {
	for i := 0; i < len(b); {
		if a.rest > 0 {
			n := min(a.rest, len(b)-i)
			a.rest -= n
			i += n
			continue
		}
		n := min(frameHeader-len(a.header), len(b)-i)
		a.header = append(a.header, b[i:i+n]...)
		i += n
		if len(a.header) < frameHeader {
			continue
		}
		if a.header[3] == headersFrame && a.header[4]&endStreamFlags != 0 && !ok {
			at, ok = max(i-frameHeader, 0), true
		}
		a.rest = int(binary.BigEndian.Uint32(a.header) >> 8)
		a.header = a.header[:0]
	}
	return at, ok
}
