package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/txcoord/txcoord/tables/datafile"
)

// The demo's shop: orders with a total, their items with an amount each, and
// customers, who appear with their first order. So at any moment
//
//	sum(orders.total_cents)  = sum(order_items.amount_cents)
//	sum(orders.items)        = count(order_items)
//	sum(orders.first_order)  = count(customers)
//
// if the three tables are read as they belong together, and only then.

// shopTable is one of the three.
type shopTable struct {
	name    string
	columns []datafile.Column
	// sums are the columns that become a file's figures, in the order of figures;
	// "*" counts rows, "" is 0.
	sums [3]string
}

const (
	ordersTable = iota
	itemsTable
	customersTable
)

var shopTables = [3]shopTable{
	{name: "orders", sums: [3]string{"total_cents", "items", "first_order"}, columns: columns(
		"order_id long", "customer_id long", "ordered_at timestamp", "items integer", "total_cents long", "first_order integer")},
	{name: "order_items", sums: [3]string{"amount_cents", "*", ""}, columns: columns(
		"order_id long", "line integer", "article string", "amount_cents long")},
	{name: "customers", sums: [3]string{"", "", "*"}, columns: columns("customer_id long", "name string", "city string")},
}

func columns(all ...string) []datafile.Column {
	var out []datafile.Column
	for _, c := range all {
		name, kind, _ := strings.Cut(c, " ")
		out = append(out, datafile.Column{Name: name, Type: kind, Nullable: true})
	}
	return out
}

// figures are what has to agree: cents, items, customers.
type figures [3]int64

func (f figures) plus(o figures, sign int64) figures {
	for i := range f {
		f[i] += sign * o[i]
	}
	return f
}

// agree compares the tables' figures.
func agree(all [3]figures) bool {
	o, i, c := all[ordersTable], all[itemsTable], all[customersTable]
	return o[0] == i[0] && o[1] == i[1] && o[2] == c[2]
}

// batch is some orders that are written together: rows by table.
type batch struct {
	rows [3][][]any
	// files are where they lie in the tables, once they are written.
	files [3]shopFile
}

// shopFile is a data file and its add action. The zero value is none.
type shopFile struct {
	path string // below the table
	size int64
	add  []byte
}

var (
	articles = []string{"lamp", "desk", "chair", "shelf", "rug", "vase", "clock", "mirror"}
	cities   = []string{"Lisbon", "Oslo", "Porto", "Riga", "Turin", "Ghent"}
)

// shop makes rows. Each has ids of its own: those that leave the same rest when
// they are divided by the number of shops. Not for concurrent use.
type shop struct {
	random    *rand.Rand
	next      int64
	shops     int64
	customers []int64
}

func newShop(number, shops int, customers []int64) *shop {
	return &shop{
		random: rand.New(rand.NewPCG(uint64(number), 7401)), next: int64(number), shops: int64(shops),
		customers: slices.Clone(customers),
	}
}

func (s *shop) id() int64 {
	s.next += s.shops
	return s.next
}

// orders makes a batch of n orders, a share of them by new customers.
func (s *shop) orders(n int, newCustomers float64) *batch {
	b := &batch{}
	for range n {
		order, customer := s.id(), int64(0)
		first := len(s.customers) == 0 || s.random.Float64() < newCustomers
		if first {
			customer = s.id()
			s.customers = append(s.customers, customer)
			b.add(customersTable, customer, fmt.Sprintf("Customer %d", customer), pick(s.random, cities))
		} else {
			customer = pick(s.random, s.customers)
		}
		items := 1 + s.random.IntN(4)
		total := int64(0)
		for line := range items {
			amount := int64(100 + s.random.IntN(20_000))
			total += amount
			b.add(itemsTable, order, line+1, pick(s.random, articles), amount)
		}
		b.add(ordersTable, order, customer, time.Now(), items, total, oneIf(first))
	}
	return b
}

func (b *batch) add(table int, row ...any) { b.rows[table] = append(b.rows[table], row) }

// repriced is the same orders at other prices; the customers are not touched.
func (b *batch) repriced(percent int64) *batch {
	out := &batch{}
	totals := map[any]int64{}
	for _, row := range b.rows[itemsTable] {
		row = slices.Clone(row)
		amount := row[3].(int64) * (100 + percent) / 100
		row[3] = amount
		totals[row[0]] += amount
		out.rows[itemsTable] = append(out.rows[itemsTable], row)
	}
	for _, row := range b.rows[ordersTable] {
		row = slices.Clone(row)
		row[4] = totals[row[0]]
		out.rows[ordersTable] = append(out.rows[ordersTable], row)
	}
	return out
}

func pick[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// write writes the batch's rows as Parquet files into the tables' folders. Nothing
// refers to them before a transaction adds them, and by then they are durable.
func (b *batch) write(warehouse string) error {
	for i := range shopTables {
		if len(b.rows[i]) == 0 {
			continue
		}
		f, err := shopTables[i].write(filepath.Join(warehouse, shopTables[i].name), b.rows[i])
		if err != nil {
			return fmt.Errorf("write rows of %s: %w", shopTables[i].name, err)
		}
		b.files[i] = f
	}
	return nil
}

func (t *shopTable) write(dir string, rows [][]any) (shopFile, error) {
	out := shopFile{path: "part-" + uuid.NewString() + ".parquet"}
	f, err := os.Create(filepath.Join(dir, out.path))
	if err != nil {
		return out, err
	}
	defer f.Close()
	written, err := datafile.Write(f, t.columns, datafile.WriteOptions{}, slices.Values(rows))
	if err != nil {
		return out, err
	}
	if err := f.Sync(); err != nil {
		return out, err
	}
	table, err := datafile.NewTable(datafile.SchemaString(t.columns), nil, nil)
	if err != nil {
		return out, err
	}
	out.size = written.Size
	out.add, err = table.Add(written, out.path, nil)
	return out, err
}

// replacing are the actions that put a file in the place of another; either may be
// none.
func replacing(old, fresh shopFile) []byte {
	var b bytes.Buffer
	if old.path != "" {
		fmt.Fprintf(&b, `{"remove":{"path":%q,"deletionTimestamp":%d,"dataChange":true,"extendedFileMetadata":true,"partitionValues":{},"size":%d}}`+"\n",
			old.path, time.Now().UnixMilli(), old.size)
	}
	if fresh.path != "" {
		b.Write(fresh.add)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// figuresOf reads a data file and adds up the columns that count.
func (t *shopTable) figuresOf(ctx context.Context, path string) (out figures, err error) {
	f, err := os.Open(path)
	if err != nil {
		return out, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return out, err
	}
	keep := func(column string) bool { return column == t.columns[0].Name || slices.Contains(t.sums[:], column) }
	err = datafile.Rows(ctx, f, info.Size(), datafile.Select{Keep: keep}, func(row []byte) error {
		var values map[string]int64
		if err := json.Unmarshal(row, &values); err != nil {
			return err
		}
		for i, column := range t.sums {
			if column == "*" {
				out[i]++
			} else if column != "" {
				out[i] += values[column]
			}
		}
		return nil
	})
	return out, err
}
