package client_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

func TestStageStreamsWhatIsLarge(t *testing.T) {
	s := &server{}
	s.onCall = func(name string, n int) error {
		if name == "StageStream" && n == 1 {
			return lostReply // in the middle: the whole stream again, from the start
		}
		return nil
	}
	c := start(t, s, client.Options{Catalog: "sales"})
	large := []byte(strings.Repeat(`{"add":{}}`+"\n", 250_000))
	_, err := c.Transact(t.Context(), "k", func(tx *client.Tx) error {
		part, err := tx.Stage(t.Context(), "orders", client.Blind(), large)
		if err == nil && part.GetBytes() != uint64(len(large)) {
			t.Errorf("staged %d bytes", part.GetBytes())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if string(s.streamed) != string(large) || s.count("StageStream") != 2 || s.count("Stage") != 0 {
		t.Errorf("%d bytes arrived in %d streams", len(s.streamed), s.count("StageStream"))
	}
	if h := s.requests[1].(*txcoordv1.StageStreamRequest).GetHeader(); h.GetCatalog() != "sales" || h.GetToken() != "k/1" {
		t.Errorf("header %v", h)
	}
}

func TestStageReaderReportsTheReader(t *testing.T) {
	s := &server{}
	c := start(t, s, client.Options{})
	_, err := c.Transact(t.Context(), "k", func(tx *client.Tx) error {
		_, err := tx.StageReader(t.Context(), "orders", client.Blind(), brokenReader{})
		return err
	})
	if !errors.Is(err, errBroken) {
		t.Errorf("error %v", err)
	}
}

var errBroken = errors.New("broken disk")

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error)       { return 0, errBroken }
func (brokenReader) Seek(int64, int) (int64, error) { return 0, nil }

func TestTxPutsPartsTogether(t *testing.T) {
	s := &server{}
	c := start(t, s, client.Options{})
	_, err := c.Transact(t.Context(), "k", func(tx *client.Tx) error {
		for _, actions := range []string{"one", "two", "one"} { // equal bytes are one part
			if _, err := tx.Stage(t.Context(), "orders", client.AtVersion(3, client.WholeTable()), []byte(actions)); err != nil {
				return err
			}
		}
		tx.ReadOnly("customers", client.AtSnapshot(9, client.Files("a.parquet")))
		before := tx.Deadline()
		if err := tx.Extend(t.Context(), time.Hour); err != nil {
			return err
		}
		if !tx.Deadline().After(before) {
			t.Errorf("deadline %v, then %v", before, tx.Deadline())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	commit := s.requests[len(s.requests)-1].(*txcoordv1.CommitRequest)
	if len(commit.GetTables()) != 1 || len(commit.GetTables()[0].GetDigests()) != 2 || len(commit.GetReads()) != 1 {
		t.Errorf("commit: %v", commit)
	}
}

func TestCommitOnceIsOneTransaction(t *testing.T) {
	s := &server{onAnswer: func(name string, n int) error {
		if name == "CommitOnce" && n == 1 {
			return lostReply
		}
		return nil
	}}
	c := start(t, s, client.Options{})
	req := &txcoordv1.CommitOnceRequest{Tables: []*txcoordv1.OnceTable{{Table: "orders", Read: client.Blind()}}}
	r, err := c.CommitOnce(t.Context(), req)
	if err != nil || len(s.outcomes) != 1 || req.GetKey() != "" {
		t.Errorf("result %+v, error %v, outcomes %v, key %q", r, err, s.outcomes, req.GetKey())
	}
	if o, err := c.Outcome(t.Context(), r.Token); err != nil || o.GetCommitted() == nil {
		t.Errorf("outcome %v, error %v", o, err)
	}
	if _, err := c.Resolve(t.Context(), "other"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("error %v", err)
	}
}

// A call that says so is not repeated, and others are.
func TestRetryForOfOneCall(t *testing.T) {
	s := &server{}
	s.onCall = func(string, int) error { return fail(codes.Unavailable, "OBJECTS_UNAVAILABLE") }
	c := start(t, s, client.Options{RetryFor: 100 * time.Millisecond})
	_, err := c.Transactions.GetOutcome(t.Context(), &txcoordv1.GetOutcomeRequest{}, client.RetryFor(0))
	if once := s.count("GetOutcome"); once != 1 || !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("%d tries, %v", once, err)
	}
	if _, _ = c.Transactions.GetOutcome(t.Context(), &txcoordv1.GetOutcomeRequest{}); s.count("GetOutcome") < 3 {
		t.Errorf("%d tries in all", s.count("GetOutcome"))
	}
}
