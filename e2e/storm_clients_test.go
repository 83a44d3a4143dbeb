package e2e_test

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// stormClient is one client of a storm. Everything it does follows from its seed,
// what comes of it does not.
type stormClient struct {
	*storm
	client *client.Client
	rng    *rand.Rand
	name   int
}

func (c *stormClient) key(n int) string { return fmt.Sprintf("client %d job %d", c.name, n) }

// pick takes some of the tables, in any order; fewer, if there are not as many.
func (c *stormClient) pick(n int) []string {
	c.mu.Lock()
	quiet := c.quiet
	c.mu.Unlock()
	var names []string
	for _, i := range c.rng.Perm(len(stormTables)) {
		if stormTables[i] != quiet {
			names = append(names, stormTables[i])
		}
	}
	return names[:min(n, len(names))]
}

// moves are blind appends to tables, one or two files each, that add up to nothing.
func (c *stormClient) moves(tables []string) []change {
	all := make([]change, len(tables))
	sum := int64(0)
	for i, name := range tables {
		amount := c.rng.Int64N(2000) - 1000
		if i == len(tables)-1 {
			amount = -sum
		}
		sum += amount
		all[i] = change{table: name, adds: []dataFile{write(c.t, c.table(name), 1+c.rng.Int64N(4), amount)}}
		if c.rng.IntN(3) == 0 {
			all[i].adds = append(all[i].adds, write(c.t, c.table(name), 2, 0))
		}
	}
	return all
}

// job runs a transaction to its end and books every attempt of it. plan makes the
// changes of one attempt and says what was read.
func (c *stormClient) job(key string, plan func(*client.Tx) ([]change, *txcoordv1.ReadDeclaration, error)) {
	var last string
	var changes []change
	r, err := c.client.Transact(c.deadline, key, func(tx *client.Tx) error {
		if last != "" {
			c.refuses(last) // or there would be no other attempt
		}
		var read *txcoordv1.ReadDeclaration
		var err error
		changes, read, err = plan(tx)
		if len(changes) == 0 {
			return errQuit
		}
		last = tx.ID()
		c.begins(last, changes)
		c.holds(last, tx.Token())
		for _, ch := range changes {
			if _, err := tx.Stage(c.deadline, ch.table, read, ch.lines()); err != nil {
				return err
			}
		}
		return err
	})
	var te *client.TransactionError
	switch {
	case err == nil:
		c.commits(r.Outcome)
		c.applied(changes)
	case errors.As(err, &te) && te.Open && (errors.Is(err, errQuit) || errors.Is(err, client.ErrOutOfRange)):
		// No server was there to abort it, so it is not refused yet: resolve sees to that.
		c.begins(te.TransactionID, nil)
		c.holds(te.TransactionID, te.Token)
	case errors.Is(err, client.ErrAborted) && last != "", errors.Is(err, errQuit) && last != "":
		c.refuses(last)
	case errors.Is(err, errQuit):
	default:
		c.t.Errorf("%s: %v", key, err)
	}
}

// transfer appends to some tables.
func (c *stormClient) transfer(key string) {
	changes := c.moves(c.pick(2 + c.rng.IntN(len(stormTables)-1)))
	c.job(key, func(*client.Tx) ([]change, *txcoordv1.ReadDeclaration, error) { return changes, client.Blind(), nil })
}

// quit stages, and then does not commit.
func (c *stormClient) quit(key string) {
	changes := c.moves(c.pick(2))
	c.job(key, func(*client.Tx) ([]change, *txcoordv1.ReadDeclaration, error) {
		return changes, client.Blind(), errQuit
	})
}

// once is a transfer in one call.
func (c *stormClient) once(key string) {
	changes := c.moves(c.pick(3))
	id := c.idOf(key)
	c.begins(id, changes)
	r, err := c.client.CommitOnce(c.deadline, onceRequest(key, changes, client.Blind()))
	if c.altered && errors.Is(err, client.ErrConflict) {
		c.refuses(id)
		return
	}
	if err != nil {
		c.t.Errorf("%s: %v", key, err)
		return
	}
	c.commits(r.Outcome)
	c.applied(changes)
}

// audit appends to two tables on the strength of a third, which nobody may have
// changed since it was read.
func (c *stormClient) audit(key string) {
	tables := c.pick(3)
	c.job(key, func(tx *client.Tx) ([]change, *txcoordv1.ReadDeclaration, error) {
		s, err := c.client.Snapshot(c.deadline)
		if err != nil {
			return nil, nil, err
		}
		tx.ReadOnly(tables[2], client.AtSnapshot(s.GetVersion(), client.WholeTable()))
		return c.moves(tables[:2]), client.Blind(), nil
	})
}

// compact rewrites two files of a table into one, in two tables at once. Others do
// the same, so it often loses.
func (c *stormClient) compact(key string) {
	tables := c.pick(2)
	c.job(key, func(*client.Tx) ([]change, *txcoordv1.ReadDeclaration, error) {
		s, err := c.client.Snapshot(c.deadline)
		if err != nil {
			return nil, nil, err
		}
		var changes []change
		for _, name := range tables {
			if two := c.two(name); two != nil {
				one := write(c.t, c.table(name), two[0].rows+two[1].rows, two[0].amount+two[1].amount)
				changes = append(changes, change{table: name, removes: two, adds: []dataFile{one}})
			}
		}
		return changes, client.AtSnapshot(s.GetVersion(), nil), nil
	})
}

// two of a table's files, as far as the client knows; nil if there are few.
func (c *stormClient) two(table string) []dataFile {
	c.mu.Lock()
	defer c.mu.Unlock()
	files := c.live[table]
	if len(files) < 4 {
		return nil
	}
	i := c.rng.IntN(len(files) - 1)
	return []dataFile{files[i], files[i+1]}
}
