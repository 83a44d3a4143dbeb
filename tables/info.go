package tables

import (
	"encoding/json"
	"fmt"

	"github.com/txcoord/txcoord/twophase"
)

// The tags of a version of ours (CONTRACT.md section 5).
const (
	tagCatalog      = "txcoord.catalog"
	tagIncarnation  = "txcoord.incarnation"
	tagRound        = "txcoord.round"
	tagTransactions = "txcoord.transactions"
	tagNotApplied   = "txcoord.notApplied"
	tagParticipants = "txcoord.participants"
	tagMultiTable   = "delta.multiTableTransaction.transactionId"
	tagPrefix       = "txcoord."
	// tagPreserved is Delta's: whether rows that a version wrote again kept their ids.
	tagPreserved = "delta.rowTracking.preserved"
)

// info is what we read of a commitInfo. It is free-form: what has an unexpected
// type is taken as absent.
type info struct {
	timestamp, inCommitTimestamp int64
	operation, engine            string
	blind                        bool
	tags                         map[string]string
}

func readInfo(body []byte) info {
	var out info
	if len(body) == 0 {
		return out
	}
	_ = members(body, func(name, value []byte) bool {
		switch string(name) {
		case "timestamp":
			out.timestamp, _ = intOf(value)
		case "inCommitTimestamp":
			out.inCommitTimestamp, _ = intOf(value)
		case "operation":
			out.operation, _ = textOf(value)
		case "engineInfo":
			out.engine, _ = textOf(value)
		case "isBlindAppend":
			out.blind, _ = boolOf(value)
		case "tags":
			out.tags = readTags(value)
		}
		return true
	})
	return out
}

func readTags(raw []byte) map[string]string {
	tags := map[string]string{}
	_ = members(raw, func(name, value []byte) bool {
		if text, ok := textOf(value); ok {
			tags[string(name)] = text
		}
		return true
	})
	return tags
}

// TxnRef is a transaction in the tags, with the digest of one of its staged
// pieces. A transaction of several pieces is listed once for each, in order.
type TxnRef struct {
	ID     twophase.TxnID
	Digest twophase.Digest
}

// Tags are those of a version that a catalog wrote.
type Tags struct {
	Catalog, Incarnation, Round string
	Transactions                []TxnRef
	// NotApplied makes the version a barrier (R4).
	NotApplied []TxnRef
	// Participants are the tables of Txns(), in their order; nil in a version of
	// transactions that write one table each, and in those of builds before.
	Participants []Participants
}

// Barrier reports that the version is one.
func (t *Tags) Barrier() bool { return len(t.NotApplied) > 0 }

// Txns are the ids in Transactions, each once, in order.
func (t *Tags) Txns() []twophase.TxnID { return idsOf(t.Transactions) }

func idsOf(refs []TxnRef) []twophase.TxnID {
	var out []twophase.TxnID
	for _, r := range refs {
		if n := len(out); n == 0 || out[n-1] != r.ID {
			out = append(out, r.ID)
		}
	}
	return out
}

// parse reads our own tags; an error means that they make no sense.
func (i info) parse() (*Tags, error) {
	t := &Tags{Catalog: i.tags[tagCatalog], Incarnation: i.tags[tagIncarnation], Round: i.tags[tagRound]}
	if t.Incarnation == "" {
		return nil, fmt.Errorf("no tag %s", tagIncarnation)
	}
	var err error
	if t.Transactions, err = refsOf(i.tags[tagTransactions]); err != nil {
		return nil, fmt.Errorf("tag %s: %w", tagTransactions, err)
	}
	if t.NotApplied, err = refsOf(i.tags[tagNotApplied]); err != nil {
		return nil, fmt.Errorf("tag %s: %w", tagNotApplied, err)
	}
	if t.Participants, err = participantsOf(i.tags[tagParticipants], len(t.Txns())); err != nil {
		return nil, fmt.Errorf("tag %s: %w", tagParticipants, err)
	}
	if (len(t.Transactions) == 0) == (len(t.NotApplied) == 0) {
		return nil, fmt.Errorf("%d transactions and %d not applied", len(t.Transactions), len(t.NotApplied))
	}
	return t, nil
}

func refsOf(text string) ([]TxnRef, error) {
	if text == "" {
		return nil, nil
	}
	var pairs [][]string
	if err := json.Unmarshal([]byte(text), &pairs); err != nil {
		return nil, fmt.Errorf("not a JSON array of [id, digest]: %w", err)
	}
	var out []TxnRef
	for _, p := range pairs {
		if len(p) != 2 {
			return nil, fmt.Errorf("an element has %d parts, want [id, digest]", len(p))
		}
		id, err := twophase.ParseTxnID(p[0])
		if err != nil {
			return nil, err
		}
		digest, err := twophase.ParseHash(p[1])
		if err != nil {
			return nil, err
		}
		out = append(out, TxnRef{id, digest})
	}
	return out, nil
}

// readTimestamp is the in-commit timestamp alone: a replay needs nothing else, and tags
// are long.
func readTimestamp(body []byte) twophase.Time {
	var out int64
	_ = members(body, func(name, value []byte) bool {
		if string(name) == "inCommitTimestamp" {
			out, _ = intOf(value)
		}
		return true
	})
	return twophase.Time(out)
}
