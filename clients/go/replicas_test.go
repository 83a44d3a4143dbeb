package client_test

import (
	"net"
	"testing"
	"time"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// One replica is gone, one takes connections and says nothing, and one serves: every
// call finds the one that serves.
func TestCallsGoOnAtOtherReplicas(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{outcomes: map[string]*txcoordv1.Outcome{}, digests: map[string]string{}}
	mute := &server{outcomes: map[string]*txcoordv1.Outcome{}, digests: map[string]string{}}
	hang := make(chan struct{})
	mute.onAnswer = func(string, int) error {
		<-hang
		return nil
	}
	addresses := gone.Addr().String() + "," + serve(t, "127.0.0.1:0", mute).addr + "," + serve(t, "127.0.0.1:0", s).addr
	t.Cleanup(func() { close(hang) }) // before the servers end
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(addresses, client.Options{TryFor: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for _, key := range []string{"a", "b", "c"} {
		if _, err := c.Transact(t.Context(), key, stageTwo(t.Context())); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}
