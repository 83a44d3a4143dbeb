package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// Two tables get their rows together, once, however often the job is started.
func ExampleClient_Transact() {
	c, err := client.Dial("127.0.0.1:7401", client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	order := `{"add":{"path":"o-1.parquet","partitionValues":{},"size":981,"modificationTime":1764400000000,"dataChange":true}}`
	item := `{"add":{"path":"i-1.parquet","partitionValues":{},"size":764,"modificationTime":1764400000000,"dataChange":true}}`
	result, err := c.Transact(ctx, "orders-2026-11-29", func(tx *client.Tx) error {
		if _, err := tx.Stage(ctx, "orders", client.Blind(), []byte(order)); err != nil {
			return err
		}
		_, err := tx.Stage(ctx, "order_items", client.Blind(), []byte(item))
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range result.Outcome.GetCommitted().GetTables() {
		fmt.Printf("%s is at version %d\n", t.GetTable(), t.GetVersion())
	}
}

// A change that depends on what was read declares it, and reads anew each time.
func ExampleClient_Transact_readSet() {
	c, err := client.Dial("127.0.0.1:7401", client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	_, err = c.Transact(ctx, "reprice-17", func(tx *client.Tx) error {
		snapshot, err := c.Snapshot(ctx, "orders", "prices")
		if err != nil {
			return err
		}
		// … read both tables at the snapshot's versions, write the new files …
		tx.ReadOnly("prices", client.AtSnapshot(snapshot.GetVersion(), client.WholeTable()))
		actions, err := os.Open("orders-actions.jsonl")
		if err != nil {
			return err
		}
		defer actions.Close()
		read := client.AtSnapshot(snapshot.GetVersion(), client.Files("part-1.parquet"))
		_, err = tx.StageReader(ctx, "orders", read, actions)
		return err
	})
	var e *client.Error
	switch {
	case errors.Is(err, client.ErrConflict) && errors.As(err, &e):
		log.Fatalf("lost every time, last on %s to %s", e.Conflict.GetTable(), e.Conflict.GetWinner())
	case errors.Is(err, client.ErrUnavailable):
		log.Fatal("perhaps committed; starting the job again finds out")
	case err != nil:
		log.Fatal(err)
	}
}

// Every snapshot, in order, from where the last run stopped.
func ExampleClient_Watch() {
	c, err := client.Dial("127.0.0.1:7401", client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for snapshot, err := range c.Watch(context.Background(), 41) {
		if err != nil {
			log.Fatal(err)
		}
		for _, t := range snapshot.GetTables() {
			fmt.Printf("snapshot %d: %s %d → %d\n", snapshot.GetVersion(), t.GetName(), t.GetFromVersion(), t.GetToVersion())
		}
	}
}

// The stubs are there for all that has no helper.
func Example_stubs() {
	c, err := client.Dial("127.0.0.1:7401", client.Options{Catalog: "sales"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	tables, err := c.Tables.ListTables(context.Background(), &txcoordv1.ListTablesRequest{})
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range tables.GetTables() {
		fmt.Println(t.GetName(), t.GetVersion())
	}
}
