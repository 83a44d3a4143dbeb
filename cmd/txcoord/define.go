package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/tables"
)

// defineFlags describe a new table.
type defineFlags struct {
	Name        string            `arg:"" help:"Name of the table in the catalog."`
	Location    string            `arg:"" help:"Where it shall be: a URI or a path. A relative path is taken from where this command runs; the path has to be the same on the server's machine."`
	Schema      string            `placeholder:"JSON|@FILE" help:"Its schema as Delta's log has it (a Spark struct), or @FILE with that." xor:"schema" required:""`
	Column      []string          `placeholder:"'NAME TYPE'" sep:"none" help:"Its columns instead, in order, each with its type as in SQL, and a comment if you like: 'price DECIMAL(10,2) COMMENT what it costs'. They are nullable." xor:"schema" required:""`
	PartitionBy []string          `placeholder:"COLUMN" help:"Columns to partition by, in order."`
	Property    map[string]string `placeholder:"KEY=VALUE" help:"Table properties, such as delta.appendOnly=true."`
	Description string            `help:"What the table is, in words."`
	kept
}

func (c *defineFlags) table() (*txcoordv1.NewTable, error) {
	uri, err := place(c.Location)
	if err != nil {
		return nil, err
	}
	schema, err := c.schema()
	if err != nil {
		return nil, err
	}
	return &txcoordv1.NewTable{
		Uri: uri, SchemaJson: schema, PartitionColumns: c.PartitionBy, Properties: c.Property, Description: c.Description,
		Mode: modeOf(c.Mode), OneTxnPerVersion: c.OneTxnPer,
	}, nil
}

// schema is what --schema or --column says.
func (c *defineFlags) schema() (string, error) {
	if file, ok := strings.CutPrefix(c.Schema, "@"); ok {
		b, err := readText("--schema", file)
		return string(b), err
	}
	if len(c.Column) == 0 {
		return c.Schema, nil
	}
	var all []tables.NewColumn
	for _, text := range c.Column {
		column, err := columnOf("--column", text)
		if err != nil {
			return "", err
		}
		all = append(all, tables.NewColumn{Name: column.GetName(), Type: column.GetType(), Comment: column.GetComment()})
	}
	return tables.SchemaString(all)
}

// alterFlags say what of a table changes.
type alterFlags struct {
	AddColumn   []string          `placeholder:"'NAME TYPE'" sep:"none" help:"Add a nullable column, with its type as in SQL, and a comment if you like: 'price DECIMAL(10,2) COMMENT what it costs'."`
	Set         map[string]string `placeholder:"KEY=VALUE" mapsep:"none" help:"Set a table property. One that needs a table feature turns it on."`
	Unset       []string          `placeholder:"KEY" help:"Take a table property away."`
	Widen       map[string]string `placeholder:"COLUMN=TYPE" mapsep:"none" help:"Give a column a wider type; the table needs delta.enableTypeWidening=true."`
	Comment     map[string]string `placeholder:"COLUMN=TEXT" mapsep:"none" help:"Comment a column; an empty text takes the comment away."`
	Description *string           `help:"What the table is, in words; empty takes the description away."`
}

func (f *alterFlags) change() (*txcoordv1.TableAlteration, error) {
	out := &txcoordv1.TableAlteration{
		SetProperties: f.Set, UnsetProperties: f.Unset, WidenColumns: f.Widen, ColumnComments: f.Comment, Description: f.Description,
	}
	for _, text := range f.AddColumn {
		column, err := columnOf("--add-column", text)
		if err != nil {
			return nil, err
		}
		out.AddColumns = append(out.AddColumns, column)
	}
	if len(out.GetAddColumns())+len(f.Set)+len(f.Unset)+len(f.Widen)+len(f.Comment) == 0 && f.Description == nil {
		return nil, usage("alter", "", "say what shall change: --add-column, --set, --unset, --widen, --comment or --description")
	}
	return out, nil
}

// columnOf reads "name TYPE COMMENT text".
func columnOf(flag, text string) (*txcoordv1.NewColumn, error) {
	name, rest, ok := strings.Cut(strings.TrimSpace(text), " ")
	if quoted, isQuoted := strings.CutPrefix(strings.TrimSpace(text), "`"); isQuoted {
		name, rest, ok = strings.Cut(quoted, "`")
	}
	if !ok || strings.TrimSpace(rest) == "" {
		return nil, usage(flag, text, "write 'NAME TYPE', such as 'price DECIMAL(10,2)'")
	}
	kind, comment := rest, ""
	if i := strings.Index(strings.ToUpper(rest), " COMMENT "); i >= 0 {
		kind, comment = rest[:i], strings.Trim(strings.TrimSpace(rest[i+len(" COMMENT "):]), "'")
	}
	return &txcoordv1.NewColumn{Name: name, Type: strings.TrimSpace(kind), Comment: comment}, nil
}

type tablesAlter struct {
	tableArg
	alterFlags
	Key string `help:"Names the piece of work: over all its attempts a key commits once. Without one a repeated command is another change." type:"given"`
}

func (c *tablesAlter) Run(ctx context.Context, s *session) error {
	change, err := c.change()
	if err != nil {
		return err
	}
	return s.call(ctx, "altering "+c.Table, func(ctx context.Context, api *client.Client) error {
		done, err := api.AlterTable(ctx, c.Key, c.Table, change)
		var e *client.Error
		if errors.As(err, &e) && errors.Is(e, client.ErrInvalid) {
			return e // the transaction is made by this command, so its id and key say nothing
		}
		if err != nil {
			return err
		}
		if done.AlreadyCommitted {
			s.note("the work of this key was committed before")
		}
		return s.showCommitted(done.Outcome, done.Outcome)
	})
}

type txCreate struct {
	Token string `required:"" help:"The transaction's token, from tx begin." placeholder:"TOKEN" type:"given"`
	defineFlags
	Actions   string   `arg:"" optional:"" help:"File with Delta actions for version 0 of the table, one JSON object a line; - is standard input. Without it, and without --add, the table begins empty."`
	Add       []string `help:"A Parquet file that lies in the table's folder, and is in its version 0; as tx add takes it. May be given several times." placeholder:"FILE" sep:"none"`
	Partition []string `help:"Partition value of all files of --add, for what their paths do not say. COLUMN alone is null." placeholder:"COLUMN=VALUE" sep:"none"`
}

func (c *txCreate) Run(ctx context.Context, s *session) error {
	table, err := c.table()
	if err != nil {
		return err
	}
	actions, err := s.optionalInput(c.Actions)
	if err != nil {
		return err
	}
	added, err := c.added(ctx, s, table)
	if err != nil {
		return err
	}
	if len(actions) > 0 && actions[len(actions)-1] != '\n' {
		actions = append(actions, '\n')
	}
	actions = append(actions, added...)
	return s.call(ctx, "staging "+c.Name, func(ctx context.Context, api *client.Client) error {
		part, err := stagePart(ctx, api, c.Token, &txcoordv1.OnceTable{Table: c.Name, Create: table, Actions: actions})
		if err != nil {
			return err
		}
		return s.showPart(c.Name, part)
	})
}

// added are the actions for --add.
func (c *txCreate) added(ctx context.Context, s *session, t *txcoordv1.NewTable) ([]byte, error) {
	if len(c.Add) == 0 {
		return nil, nil
	}
	root, err := localRoot(t.GetUri())
	if err != nil {
		return nil, err
	}
	return s.addActions(ctx, c.Name, root, t.GetSchemaJson(), t.GetPartitionColumns(), t.GetProperties(), c.Add, c.Partition)
}

func (s *session) optionalInput(name string) ([]byte, error) {
	if name == "" {
		return nil, nil
	}
	return s.readInput(name)
}

type txAlter struct {
	Token string `required:"" help:"The transaction's token, from tx begin." placeholder:"TOKEN" type:"given"`
	tableArg
	alterFlags
	Actions string `arg:"" optional:"" help:"File with Delta actions for the same version, one JSON object a line; - is standard input."`
}

func (c *txAlter) Run(ctx context.Context, s *session) error {
	change, err := c.change()
	if err != nil {
		return err
	}
	actions, err := s.optionalInput(c.Actions)
	if err != nil {
		return err
	}
	return s.call(ctx, "staging "+c.Table, func(ctx context.Context, api *client.Client) error {
		part, err := stagePart(ctx, api, c.Token, &txcoordv1.OnceTable{Table: c.Table, Alter: change, Actions: actions})
		if err != nil {
			return err
		}
		return s.showPart(c.Table, part)
	})
}

// fileNew is a new table in a commit file.
type fileNew struct {
	Location         string            `json:"location"`
	Schema           json.RawMessage   `json:"schema"`
	PartitionBy      []string          `json:"partitionBy"`
	Properties       map[string]string `json:"properties"`
	Description      string            `json:"description"`
	Mode             string            `json:"mode"`
	OneTxnPerVersion bool              `json:"oneTxnPerVersion"`
}

// table is the same on the wire. The schema is an object, or that in a string.
func (f *fileNew) table() (*txcoordv1.NewTable, error) {
	uri, err := place(f.Location)
	if err != nil {
		return nil, err
	}
	schema := string(f.Schema)
	if strings.HasPrefix(schema, `"`) {
		if err := json.Unmarshal(f.Schema, &schema); err != nil {
			return nil, err
		}
	}
	mode := modeOf(or(f.Mode, "open"))
	switch {
	case f.Location == "":
		return nil, usage("create.location", "", "say where the table shall be")
	case schema == "":
		return nil, usage("create.schema", "", "give its schema as Delta's log has it")
	case mode == txcoordv1.TableMode_TABLE_MODE_UNSPECIFIED:
		return nil, usage("create.mode", f.Mode, "write open, exclusive or delta-storage")
	}
	return &txcoordv1.NewTable{
		Uri: uri, SchemaJson: schema, PartitionColumns: f.PartitionBy, Properties: f.Properties, Description: f.Description,
		Mode: mode, OneTxnPerVersion: f.OneTxnPerVersion,
	}, nil
}

// fileAlter is a change of a table's definition in a commit file.
type fileAlter struct {
	AddColumns  []fileColumn      `json:"addColumns"`
	Set         map[string]string `json:"set"`
	Unset       []string          `json:"unset"`
	Widen       map[string]string `json:"widen"`
	Comments    map[string]string `json:"comments"`
	Description *string           `json:"description"`
}

type fileColumn struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Comment string `json:"comment"`
}

func (f *fileAlter) change() *txcoordv1.TableAlteration {
	out := &txcoordv1.TableAlteration{
		SetProperties: f.Set, UnsetProperties: f.Unset, WidenColumns: f.Widen, ColumnComments: f.Comments, Description: f.Description,
	}
	for _, c := range f.AddColumns {
		out.AddColumns = append(out.AddColumns, &txcoordv1.NewColumn{Name: c.Name, Type: c.Type, Comment: c.Comment})
	}
	return out
}

// defines reads what a table of a commit file is, or becomes. Beside it a read
// declaration and actions may be left out.
func (t *fileTable) defines(out *txcoordv1.OnceTable) (err error) {
	if t.Create != nil && t.Alter != nil {
		return usage("create", "", "give one of it and alter: describe a new table as it shall be")
	}
	if t.Create != nil {
		if out.Create, err = t.Create.table(); err != nil {
			return fmt.Errorf("create: %w", err)
		}
	}
	if t.Alter != nil {
		out.Alter = t.Alter.change()
	}
	return nil
}
