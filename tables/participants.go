package tables

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/twophase"
)

// Participants are the tables that a transaction writes, as a version of one of them
// tells: so that a transaction which is not in all of its logs shows as such when the
// journal is lost (R7).
type Participants struct {
	// Count of them; 0 if the version does not say.
	Count int
	// Tables by id, sorted; nil where there are more than maxParticipants.
	Tables []twophase.TableID
}

// maxParticipants is up to how many tables a version names them. Beyond, only their
// number stands there: a thousand tables times a thousand names is too much to write.
const maxParticipants = 128

// participants is the tag's text: [sets, of], where a set is an array of table ids, or
// their number where there are many, and of has for each transaction of the version the
// place of its set. Versions that share transactions mostly share their set. Empty if
// every transaction writes one table.
func participants(txns []RenderTxn) string {
	many := slices.ContainsFunc(txns, func(t RenderTxn) bool { return len(t.Tables) > 1 })
	if !many {
		return ""
	}
	var sets []any
	known := map[string]int{}
	of := make([]int, len(txns))
	for i := range txns {
		key, set := participantSet(txns[i].Tables)
		at, ok := known[key]
		if !ok {
			at = len(sets)
			known[key] = at
			sets = append(sets, set)
		}
		of[i] = at
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode([]any{sets, of}) // strings and numbers only
	return strings.TrimSuffix(b.String(), "\n")
}

func participantSet(ids []twophase.TableID) (key string, set any) {
	if len(ids) > maxParticipants {
		return fmt.Sprint(len(ids)), len(ids)
	}
	sorted := slices.Sorted(slices.Values(ids))
	return fmt.Sprintf("%q", sorted), sorted
}

// participantsOf reads the tag of a version with so many transactions.
func participantsOf(text string, txns int) ([]Participants, error) {
	if text == "" {
		return nil, nil
	}
	var halves [2]json.RawMessage
	var sets []json.RawMessage
	var of []int
	err := json.Unmarshal([]byte(text), &halves)
	if err == nil {
		err = json.Unmarshal(halves[0], &sets)
	}
	if err == nil {
		err = json.Unmarshal(halves[1], &of)
	}
	if err != nil {
		return nil, fmt.Errorf("not a JSON array of sets of tables and of places: %w", err)
	}
	if len(of) != txns {
		return nil, fmt.Errorf("it is of %d transactions, and the version has %d", len(of), txns)
	}
	read := make([]Participants, len(sets))
	for i, raw := range sets {
		if json.Unmarshal(raw, &read[i].Count) == nil {
			continue
		}
		if err := json.Unmarshal(raw, &read[i].Tables); err != nil {
			return nil, fmt.Errorf("set %d is neither a number nor an array of table ids: %w", i, err)
		}
		read[i].Count = len(read[i].Tables)
	}
	out := make([]Participants, len(of))
	for i, at := range of {
		if at < 0 || at >= len(read) {
			return nil, fmt.Errorf("there is no set %d", at)
		}
		out[i] = read[at]
	}
	return out, nil
}
