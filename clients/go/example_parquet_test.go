package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"google.golang.org/grpc/credentials"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/tables/datafile"
)

// A server that is locked down: TLS with an authority of one's own, and a token, which
// is read again for each call and so may be replaced.
func ExampleDial() {
	ca, err := os.ReadFile("ca.pem")
	if err != nil {
		log.Fatal(err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(ca)
	c, err := client.Dial("txcoord-1:7401,txcoord-2:7401", client.Options{
		Catalog:     "sales",
		Credentials: credentials.NewTLS(&tls.Config{RootCAs: authorities}),
		Token: func() (string, error) {
			token, err := os.ReadFile("token")
			return string(token), err
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
}

// A Parquet file that lies in a table's folder becomes a line for Stage: its footer
// gives size, statistics and types, the table's schema says what has to fit.
func ExampleTx_Stage() {
	const folder, file = "/srv/lake/orders", "day=2026-11-29/o-1.parquet"
	c, err := client.Dial("127.0.0.1:7401", client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	line, err := addLine(ctx, c, "orders", folder, file)
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.Transact(ctx, "orders-2026-11-29", func(tx *client.Tx) error {
		_, err := tx.Stage(ctx, "orders", client.Blind(), line)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}

func addLine(ctx context.Context, c *client.Client, name, folder, file string) ([]byte, error) {
	d, err := c.Tables.DescribeTable(ctx, &txcoordv1.DescribeTableRequest{Table: name})
	if err != nil {
		return nil, err
	}
	state := d.GetState()
	table, err := datafile.NewTable(state.GetSchemaJson(), state.GetPartitionColumns(), state.GetProperties())
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(folder, file))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	footer, err := datafile.Describe(ctx, f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("read the footer of %s: %w", file, err)
	}
	footer.Modified = info.ModTime()
	return table.Add(footer, file, nil) // nil: partition values are in the path
}
