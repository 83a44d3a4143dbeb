package checker

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
)

// The tags of a version of ours (CONTRACT.md section 5).
const (
	tagCatalog      = "txcoord.catalog"
	tagIncarnation  = "txcoord.incarnation"
	tagRound        = "txcoord.round"
	tagTransactions = "txcoord.transactions"
	tagNotApplied   = "txcoord.notApplied"
	tagMultiTable   = "delta.multiTableTransaction.transactionId"
)

// version is what a check needs of one commit file. It never keeps the bytes.
type version struct {
	hash [sha256.Size]byte
	size int64
	// actions are the names of the top-level actions, line by line.
	actions []string
	info    commitInfo
	txns    []appTxn
	// adds are decoded paths, in order.
	adds []string
	// problem says why the file is not a sequence of actions.
	problem error
}

type commitInfo struct {
	Timestamp     *json.Number               `json:"timestamp"`
	Operation     string                     `json:"operation"`
	EngineInfo    string                     `json:"engineInfo"`
	IsBlindAppend *bool                      `json:"isBlindAppend"`
	TxnID         string                     `json:"txnId"`
	Tags          map[string]json.RawMessage `json:"tags"`
}

type appTxn struct {
	AppID       string `json:"appId"`
	Version     int64  `json:"version"`
	LastUpdated *int64 `json:"lastUpdated"`
	// line counts from 1.
	line int
}

// tag is a tag's string; empty if there is none or it is not a string.
func (v *version) tag(name string) string {
	var s string
	if json.Unmarshal(v.info.Tags[name], &s) != nil {
		return ""
	}
	return s
}

// readVersion reads one commit. It returns an error only where reading fails;
// malformed content is kept in problem.
func readVersion(r io.Reader) (*version, error) {
	v := &version{}
	h := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(r, h), 1<<16)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		v.size += int64(len(line))
		if text := bytes.TrimRight(line, "\r\n"); len(text) > 0 && v.problem == nil {
			v.problem = v.readLine(n, text)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read line %d: %w", n, err)
		}
	}
	h.Sum(v.hash[:0])
	if v.problem == nil && len(v.actions) == 0 {
		v.problem = errors.New("no action in it")
	}
	return v, nil
}

func (v *version) readLine(n int, line []byte) error {
	var action map[string]json.RawMessage
	if err := json.Unmarshal(line, &action); err != nil {
		return fmt.Errorf("line %d is not a JSON object: %w", n, err)
	}
	if len(action) != 1 {
		return fmt.Errorf("line %d holds %d actions, want 1", n, len(action))
	}
	for name, body := range action {
		v.actions = append(v.actions, name)
		if err := v.readAction(n, name, body); err != nil {
			return fmt.Errorf("line %d, %s: %w", n, name, err)
		}
	}
	return nil
}

func (v *version) readAction(n int, name string, body []byte) error {
	switch name {
	case "commitInfo":
		return json.Unmarshal(body, &v.info)
	case "txn":
		t := appTxn{line: n}
		if err := json.Unmarshal(body, &t); err != nil {
			return err
		}
		v.txns = append(v.txns, t)
	case "add":
		var add struct {
			Path *string `json:"path"`
		}
		if err := json.Unmarshal(body, &add); err != nil {
			return err
		}
		if add.Path == nil {
			return errors.New("no path")
		}
		v.adds = append(v.adds, decodePath(*add.Path))
	}
	return nil
}

// decodePath gives a path of an action its file's name: percent-decoded once,
// with a literal plus. What does not decode stays as it is.
func decodePath(p string) string {
	if d, err := url.PathUnescape(p); err == nil {
		return d
	}
	return p
}
