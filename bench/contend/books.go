package contend

import (
	"sync"

	"github.com/txcoord/txcoord/e2e/checker"
)

// books are what a session's clients were told.
type books struct {
	mu                             sync.Mutex
	committed, refused, unresolved []checker.Transaction
}

func (b *books) note(list *[]checker.Transaction, x checker.Transaction) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*list = append(*list, x)
}

func (b *books) run(dir string, tables int) checker.Run {
	b.mu.Lock()
	defer b.mu.Unlock()
	return checker.Run{
		Warehouse: dir, Catalog: "default", Tables: checkerTables(dir, tables),
		Committed: b.committed, Refused: b.refused, Unresolved: b.unresolved, Closed: true, Dense: true,
	}
}

// transaction is the transaction as its client knows it; versions are those of
// its tables, in order, as far as they were reached.
func (w Work) transaction(versions []int64) checker.Transaction {
	x := checker.Transaction{ID: w.ID()}
	for i, t := range w.Tables {
		p := checker.Part{Table: TableName(t), Adds: []string{w.Path()}, Digests: []string{w.digest()}}
		if i < len(versions) {
			p.Version = versions[i]
		}
		x.Parts = append(x.Parts, p)
	}
	return x
}
