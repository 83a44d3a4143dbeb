package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

func TestMessagesAsJSON(t *testing.T) {
	zero := uint64(0)
	for _, c := range []struct {
		in   proto.Message
		want string
	}{
		{
			&txcoordv1.TableDelivery{Version: -1, State: txcoordv1.DeliveryState_DELIVERY_STATE_NOT_APPLIED},
			`{"tableId":"","table":"","state":"not_applied","version":-1,"place":0}`,
		},
		{&txcoordv1.GetStatusRequest{AtLeastSnapshot: 1<<64 - 1}, `{"catalog":"","atLeastSnapshot":18446744073709551615}`},
		{&txcoordv1.WatchSnapshotsRequest{After: &zero}, `{"catalog":"","atLeastSnapshot":0,"after":0}`},
		{&txcoordv1.WatchSnapshotsRequest{}, `{"catalog":"","atLeastSnapshot":0}`},
		{
			&txcoordv1.Freeze{Reason: "a<b&\"c\"", Since: timestamppb.New(time.Unix(1, 500_000_000))},
			`{"cause":"","transactionId":"","reason":"a<b&\"c\"","since":"1970-01-01T00:00:01.5Z","held":false}`,
		},
		{&txcoordv1.TableState{
			MinReaderVersion: 1, Properties: map[string]string{"b": "1", "a": "2"}, LogRetention: durationpb.New(time.Hour),
			WriterFeatures: []string{"x"},
		}, `{"version":0,"minReaderVersion":1,"minWriterVersion":0,"readerFeatures":[],"writerFeatures":["x"],"schemaJson":"",` +
			`"partitionColumns":[],"properties":{"a":"2","b":"1"},"logRetention":"1h0m0s","files":0,"bytes":0}`},
		{&txcoordv1.AbortRequest{Transaction: &txcoordv1.AbortRequest_Token{Token: "t"}}, `{"catalog":"","atLeastSnapshot":0,"token":"t","reason":""}`},
		{&txcoordv1.ConflictDetail{Rule: 99}, `{"table":"","tableId":"","version":0,"rule":"99","path":"","winner":"","detail":"","transactionId":"","attempt":0}`},
	} {
		var out bytes.Buffer
		if err := (&session{out: &out}).showJSON(c.in, ""); err != nil {
			t.Fatal(err)
		}
		same(t, c.want+"\n", out.String())
	}
}

// TestTerminalsAreNotSteered: names come from others, and may hold escapes.
func TestTerminalsAreNotSteered(t *testing.T) {
	var out bytes.Buffer
	g := newGrid(&out)
	g.row("a\x1b[2Jb", "c\td\ne")
	if err := g.flush(); err != nil {
		t.Fatal(err)
	}
	same(t, "a [2Jb  c d e\n", out.String())
}

// terminal is a buffer for two goroutines.
type terminal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *terminal) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *terminal) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

func TestProgressSpeaksAfterASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &terminal{}
		p := watchTime(w, "committing")
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		same(t, "", w.String())
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if got := w.String(); !strings.Contains(got, "committing … 1 s") {
			t.Errorf("after more than a second: %q", got)
		}
		p.now("reading footers, %d of %d", 3, 9)
		time.Sleep(time.Second)
		p.end()
		got := w.String()
		if !strings.Contains(got, "reading footers, 3 of 9 … 2 s") {
			t.Errorf("later: %q", got)
		}
		if last := got[strings.LastIndexByte(strings.TrimSuffix(got, "\r"), '\r')+1:]; strings.Trim(last, " \r") != "" {
			t.Errorf("the line stays: %q", last)
		}
	})
}

func TestProgressThatWasQuickSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &terminal{}
		p := watchTime(w, "committing")
		time.Sleep(500 * time.Millisecond)
		p.end()
		same(t, "", w.String())
	})
}

// TestNoIDIsNoLine: what has none yet prints nothing with -o id, and no empty line.
func TestNoIDIsNoLine(t *testing.T) {
	store := "bolt:" + filepath.Join(t.TempDir(), "journal")
	o := txcoord(t, nil, "", "store", "init", "--store", store, "-o", "id")
	wantCode(t, nil, o, 0)
	same(t, "", o.out)
}
