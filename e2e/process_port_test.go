package e2e_test

import (
	"net"
	"testing"
)

// TestPortOfTheDead: who listens at the port of a server that has ended is not taken for it.
func TestPortOfTheDead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serverConfig{})
	w.start(nil)
	conn, err := w.connection(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	w.kill()
	other, err := net.Listen("tcp", w.address)
	if err != nil {
		t.Logf("somebody else has the port already: %v", err)
	} else {
		defer other.Close()
	}
	if conn, err := w.connection(t.Context()); err == nil {
		t.Errorf("connected to %s, whose server has ended", conn.RemoteAddr())
	}
}
