package e2e_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// namer names writes for people, and so that two runs of the same calls have the
// same names: without ids, positions and hashes.
type namer struct {
	mu     sync.Mutex
	tables map[string]string // names by id, as journal entries tell them
}

func newNamer() *namer { return &namer{tables: map[string]string{}} }

// ofPut names a put into the store: what an entry records, and what goes with it.
func (n *namer) ofPut(key string, value []byte, with []lock.Write) string {
	name := n.ofKey(key)
	switch {
	case strings.HasPrefix(key, "ring/"):
		name = "entry: " + n.recordsOf(value)
	case strings.HasPrefix(key, "open/"):
		var r struct{ Tables []string }
		_ = json.Unmarshal(value, &r)
		name = fmt.Sprintf("advisory of %d tables", len(r.Tables))
	}
	switch n := len(with); {
	case n == 1:
		name += " with a bundle"
	case n > 1:
		name += fmt.Sprintf(" with %d bundles", n)
	}
	return name
}

func (n *namer) recordsOf(value []byte) string {
	raw, err := lock.Unpack(value)
	if err != nil {
		return err.Error()
	}
	e, err := twophase.DecodeEntry(raw)
	if err != nil {
		return err.Error()
	}
	var kinds []string
	for _, r := range e.Records {
		kinds = append(kinds, strings.ToLower(reflect.TypeOf(r).Elem().Name()))
		switch r := r.(type) {
		case *twophase.Registered:
			n.learn(r)
		case *twophase.Created:
			n.learn(&r.Registered)
		case *twophase.Committed:
			for i := range r.Parts {
				if c := r.Parts[i].Create; c != nil {
					n.learn(&twophase.Registered{Table: r.Parts[i].Table, Name: c.Name})
				}
			}
		}
	}
	return strings.Join(kinds, "+")
}

func (n *namer) learn(r *twophase.Registered) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tables[string(r.Table)] = r.Name
}

// shapes of keys and object names (CONTRACT.md section 6), and the names of what
// lies there; $1 is a table's name or id or a number.
var shapes = []struct {
	key  *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`^pay/\d+/\d+/\w+/([\w-]+)/\w+$`), "payload of $1"},
	{regexp.MustCompile(`^pay/\d+/(bundle)/\w+$`), "$1 of payloads"},
	{regexp.MustCompile(`(?:^|/)_txcoord/\w+/staged/\d+/\w+/([\w-]+)/\w+$`), "payload object of $1"},
	{regexp.MustCompile(`^open/\w+$`), "advisory"},
	{regexp.MustCompile(`(?:^|/)_txcoord/\w+/manifests/0*(\d+).json$`), "manifest $1"},
	{regexp.MustCompile(`(?:^|/)_txcoord/\w+/manifests/0*(\d+).checkpoint.json$`), "full manifest $1"},
	{regexp.MustCompile(`(?:^|/)_txcoord/\w+/(checkpoint)s/.*$`), "$1 object"},
	{regexp.MustCompile(`(?:^|/)_txcoord/\w+/(facts)/.*$`), "$1 object"},
	{regexp.MustCompile(`(?:^|/)_txcoord/\w+/extracts/([\w-]+)$`), "extract of $1"},
	{regexp.MustCompile(`([^/]+)/_delta_log/.tmp/.*$`), "temporary file of $1"},
	{regexp.MustCompile(`([^/]+)/_delta_log/_txcoord/owner.json$`), "owner object of $1"},
}

var commitKey = regexp.MustCompile(`([^/]+)/_delta_log/(\d{20}).json$`)

func (n *namer) ofKey(key string) string {
	if m := commitKey.FindStringSubmatch(key); m != nil {
		version, _ := strconv.Atoi(m[2])
		return fmt.Sprintf("version %d of %s", version, m[1])
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range shapes {
		m := s.key.FindStringSubmatch(key)
		if m == nil {
			continue
		}
		what := ""
		if len(m) > 1 {
			what = m[1]
		}
		if table, known := n.tables[what]; known {
			what = table
		}
		return strings.ReplaceAll(s.name, "$1", what)
	}
	return key
}
