package tables

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/internal/nearest"
)

// sqlTypes are the names that SQL has for Delta's primitive types.
var sqlTypes = map[string]string{
	"string": "string", "varchar": "", "char": "", "long": "long", "bigint": "long", "int": "integer", "integer": "integer",
	"short": "short", "smallint": "short", "byte": "byte", "tinyint": "byte", "float": "float", "real": "float",
	"double": "double", "boolean": "boolean", "bool": "boolean", "binary": "binary", "date": "date",
	"timestamp": "timestamp", "timestamp_ltz": "timestamp", "timestamp_ntz": "timestamp_ntz", "variant": "variant",
}

// sqlType reads a type as SQL has it, and returns it as a schema's JSON has it.
func sqlType(text string) (json.RawMessage, error) {
	p := typeParser{text: text}
	t, err := p.dataType(0)
	switch {
	case err != nil:
	case strings.EqualFold(p.word(), "not"):
		err = fmt.Errorf("columns are nullable here: leave NOT NULL out")
	case p.word() != "":
		err = fmt.Errorf("%q stands behind the type", cut(strings.TrimSpace(text[p.at:])))
	}
	if err != nil {
		return nil, fmt.Errorf("%q is not a type: %w", cut(text), err)
	}
	return t, nil
}

// SchemaString is the schema, as a log has it, of a new table with these columns. All
// are nullable.
func SchemaString(columns []NewColumn) (string, error) {
	fields := []json.RawMessage{}
	for _, c := range columns {
		t, err := sqlType(c.Type)
		if err != nil {
			return "", alterError("columns."+c.Name, c.Type, err.Error(), "write it as in SQL, such as INT or DECIMAL(10,2)")
		}
		fields = append(fields, newField(c.Name, t, c.Comment))
	}
	b, err := json.Marshal(struct {
		Type   string            `json:"type"`
		Fields []json.RawMessage `json:"fields"`
	}{"struct", fields})
	return string(b), err
}

type typeParser struct {
	text string
	at   int
}

// word is the next name, number or sign, without moving on; empty at the end.
func (p *typeParser) word() string {
	for p.at < len(p.text) && strings.ContainsRune(" \t\n\r", rune(p.text[p.at])) {
		p.at++
	}
	rest := p.text[p.at:]
	switch {
	case rest == "":
		return ""
	case strings.ContainsRune("<>(),:", rune(rest[0])):
		return rest[:1]
	case rest[0] == '`':
		if end := strings.IndexByte(rest[1:], '`'); end >= 0 {
			return rest[:end+2]
		}
		return rest
	}
	if end := strings.IndexAny(rest, " \t\n\r<>(),:"); end >= 0 {
		return rest[:end]
	}
	return rest
}

func (p *typeParser) next() string {
	w := p.word()
	p.at += len(w)
	return w
}

func (p *typeParser) expect(sign string) error {
	if w := p.next(); w != sign {
		return fmt.Errorf("%q is expected, there is %q", sign, w)
	}
	return nil
}

func (p *typeParser) dataType(depth int) (json.RawMessage, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested too deeply")
	}
	name := strings.ToLower(p.next())
	switch name {
	case "array":
		return p.collection(depth, `{"type":"array","elementType":%s,"containsNull":true}`, 1)
	case "map":
		return p.collection(depth, `{"type":"map","keyType":%s,"valueType":%s,"valueContainsNull":true}`, 2)
	case "struct":
		return p.structType(depth)
	case "decimal", "dec", "numeric":
		return p.decimal()
	}
	known, ok := sqlTypes[name]
	if ok && known == "" {
		return nil, fmt.Errorf("there is no %s in Delta: use STRING", name)
	}
	if !ok {
		return nil, fmt.Errorf("type %q is not known%s", name, nearest.Meant(name, typeNames()))
	}
	return json.RawMessage(`"` + known + `"`), nil
}

// typeNames are those that a type may begin with, in order.
func typeNames() []string {
	names := []string{"array", "decimal", "map", "struct"}
	for name, known := range sqlTypes {
		if known != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (p *typeParser) collection(depth int, form string, n int) (json.RawMessage, error) {
	var inner []any
	sign := "<"
	for range n {
		if err := p.expect(sign); err != nil {
			return nil, err
		}
		t, err := p.dataType(depth + 1)
		if err != nil {
			return nil, err
		}
		inner = append(inner, t)
		sign = ","
	}
	return json.RawMessage(fmt.Sprintf(form, inner...)), p.expect(">")
}

func (p *typeParser) structType(depth int) (json.RawMessage, error) {
	if err := p.expect("<"); err != nil {
		return nil, err
	}
	var fields []json.RawMessage
	for {
		name := strings.Trim(p.next(), "`")
		if name == "" || strings.ContainsAny(name, "<>(),:") {
			return nil, fmt.Errorf("a field's name is expected")
		}
		if p.word() == ":" {
			p.next()
		}
		t, err := p.dataType(depth + 1)
		if err != nil {
			return nil, err
		}
		fields = append(fields, newField(name, t, ""))
		switch sign := p.next(); sign {
		case ",":
		case ">":
			return json.Marshal(struct {
				Type   string            `json:"type"`
				Fields []json.RawMessage `json:"fields"`
			}{"struct", fields})
		default:
			return nil, fmt.Errorf("%q or %q is expected, there is %q", ",", ">", sign)
		}
	}
}

func (p *typeParser) decimal() (json.RawMessage, error) {
	precision, scale := 10, 0
	if p.word() == "(" {
		p.next()
		if _, err := fmt.Sscan(p.next(), &precision); err != nil {
			return nil, fmt.Errorf("a decimal's precision is expected")
		}
		if p.word() == "," {
			p.next()
			if _, err := fmt.Sscan(p.next(), &scale); err != nil {
				return nil, fmt.Errorf("a decimal's scale is expected")
			}
		}
		if err := p.expect(")"); err != nil {
			return nil, err
		}
	}
	if precision < 1 || precision > 38 || scale < 0 || scale > precision {
		return nil, fmt.Errorf("a decimal has a precision from 1 to 38, and a scale from 0 up to that")
	}
	return json.RawMessage(fmt.Sprintf(`"decimal(%d,%d)"`, precision, scale)), nil
}

// newField is a nullable field of a schema.
func newField(name string, dataType json.RawMessage, comment string) json.RawMessage {
	meta := map[string]string{}
	if comment != "" {
		meta["comment"] = comment
	}
	m, _ := json.Marshal(meta)
	n, _ := json.Marshal(name)
	return json.RawMessage(fmt.Sprintf(`{"name":%s,"type":%s,"nullable":true,"metadata":%s}`, n, dataType, m))
}
