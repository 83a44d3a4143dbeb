package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// socketScheme begins an address that is a Unix socket.
const socketScheme = "unix:"

// longestSocket is the longest path that the system takes for a socket.
const longestSocket = len(syscall.RawSockaddrUnix{}.Path) - 1

func isSocket(address string) bool { return strings.HasPrefix(address, socketScheme) }

// listen listens on host:port, or on unix:PATH for those who may write the socket:
// its owner. A socket that a dead process left behind is replaced, one that answers
// is not.
func listen(ctx context.Context, address string) (net.Listener, error) {
	network, place := "tcp", address
	if path, ok := strings.CutPrefix(address, socketScheme); ok {
		network, place = "unix", path
		if err := clearSocket(ctx, path); err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, network, place)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, taken(fmt.Errorf("listen: %w", err))
	}
	if network == "unix" && errors.Is(err, fs.ErrNotExist) {
		return nil, usage("--listen", address, "make the folder "+filepath.Dir(place)+" first")
	}
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if network == "unix" {
		if err := os.Chmod(place, 0o600); err != nil {
			return nil, errors.Join(fmt.Errorf("listen: %w", err), l.Close())
		}
	}
	return l, nil
}

// taken is the error of an address at which somebody listens.
func taken(err error) error {
	return &codedError{&hinted{err, "Another program listens there, perhaps a server that runs already: stop it, or give another address (--listen, --admin-listen)."}, exitPrecondition}
}

func clearSocket(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("%s is there and is not a socket", path)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err == nil {
		return taken(errors.Join(fmt.Errorf("%s: somebody serves there", path), c.Close()))
	}
	return os.Remove(path)
}

// addressOf is how clients write where a listener is.
func addressOf(a net.Addr) string {
	if a.Network() == "unix" {
		return socketScheme + a.String()
	}
	return a.String()
}

// advertised is where other replicas reach this server: what --advertise says, else
// where it listens, if that is an address for others. Nothing for a socket.
func (c *Config) advertised(listening net.Addr) string {
	host, port, err := net.SplitHostPort(listening.String())
	switch {
	case c.Advertise != "":
		return c.Advertise
	case listening.Network() == "unix", err != nil:
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if host, err = os.Hostname(); err != nil {
			return ""
		}
	}
	return net.JoinHostPort(host, port)
}

func (c *Config) drain() time.Duration {
	if c.drainFor != nil {
		return *c.drainFor
	}
	return c.StopTimeout
}
