package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// functions are those that the files use.
var functions = map[string]function.Function{"concat": stdlib.ConcatFunc, "jsonencode": stdlib.JSONEncodeFunc}

// account and region stand for those of whoever applies the files.
const (
	account = "111122223333"
	region  = "eu-central-1"
)

// module is a folder of Terraform files, evaluated without a provider: what a provider
// would say of a resource is its arn alone.
type module struct {
	blocks []*hclsyntax.Block
	vars   map[string]cty.Value
	locals map[string]cty.Value
	things map[string]map[string]cty.Value // resources, by type and name
}

// terraform evaluates every expression in a folder's files, so that a name which does
// not exist is an error, and returns the resources: by "type.name", their attributes and
// nested blocks. It refuses files that `terraform fmt` would change.
func terraform(folder string, given []string) (any, error) {
	m := &module{vars: map[string]cty.Value{}, locals: map[string]cty.Value{}, things: map[string]map[string]cty.Value{}}
	if err := m.read(folder); err != nil {
		return nil, err
	}
	if err := m.variables(given); err != nil {
		return nil, err
	}
	if err := m.resolveLocals(); err != nil {
		return nil, err
	}
	return m.resources()
}

func (m *module) read(folder string) error {
	names, err := filepath.Glob(filepath.Join(folder, "*.tf"))
	if err != nil || len(names) == 0 {
		return fmt.Errorf("no *.tf in %s (%w)", folder, err)
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if !bytes.Equal(raw, hclwrite.Format(raw)) {
			return fmt.Errorf("%s: terraform fmt would change it", filepath.Base(name))
		}
		file, diags := hclsyntax.ParseConfig(raw, filepath.Base(name), hcl.InitialPos)
		if diags.HasErrors() {
			return diags
		}
		m.blocks = append(m.blocks, file.Body.(*hclsyntax.Body).Blocks...)
	}
	return nil
}

// variables takes those that are given, as NAME=JSON, and the defaults of the rest.
func (m *module) variables(given []string) error {
	for _, g := range given {
		name, text, _ := strings.Cut(g, "=")
		t, err := ctyjson.ImpliedType([]byte(text))
		if err != nil {
			return fmt.Errorf("variable %s: %w", name, err)
		}
		if m.vars[name], err = ctyjson.Unmarshal([]byte(text), t); err != nil {
			return fmt.Errorf("variable %s: %w", name, err)
		}
	}
	declared := map[string]bool{}
	for _, b := range m.blocks {
		if b.Type != "variable" {
			continue
		}
		name := b.Labels[0]
		declared[name] = true
		if b.Body.Attributes["description"] == nil || b.Body.Attributes["type"] == nil {
			return fmt.Errorf("variable %s: give it a type and a description", name)
		}
		if _, ok := m.vars[name]; ok || b.Body.Attributes["default"] == nil {
			continue
		}
		v, diags := b.Body.Attributes["default"].Expr.Value(nil)
		if diags.HasErrors() {
			return diags
		}
		m.vars[name] = v
	}
	for name := range m.vars {
		if !declared[name] {
			return fmt.Errorf("there is no variable %s", name)
		}
	}
	m.declare()
	return nil
}

// declare gives each resource what others say of it.
func (m *module) declare() {
	for _, b := range m.blocks {
		if b.Type != "resource" {
			continue
		}
		kind, name := b.Labels[0], b.Labels[1]
		thing := map[string]cty.Value{"arn": cty.StringVal("arn:aws:iam::" + account + ":policy/" + name)}
		if kind == "aws_dynamodb_table" {
			thing["name"] = m.vars["table_name"]
			thing["arn"] = cty.StringVal("arn:aws:dynamodb:" + region + ":" + account + ":table/" + m.vars["table_name"].AsString())
		}
		if m.things[kind] == nil {
			m.things[kind] = map[string]cty.Value{}
		}
		m.things[kind][name] = cty.ObjectVal(thing)
	}
}

func (m *module) context() *hcl.EvalContext {
	one := func(attr, value string) cty.Value {
		return cty.ObjectVal(map[string]cty.Value{"current": cty.ObjectVal(map[string]cty.Value{attr: cty.StringVal(value)})})
	}
	all := map[string]cty.Value{
		"var": cty.ObjectVal(m.vars), "local": cty.ObjectVal(m.locals),
		"data": cty.ObjectVal(map[string]cty.Value{
			"aws_partition": one("partition", "aws"), "aws_region": one("name", region), "aws_caller_identity": one("account_id", account),
		}),
	}
	for kind, named := range m.things {
		all[kind] = cty.ObjectVal(named)
	}
	return &hcl.EvalContext{Variables: all, Functions: functions}
}

// resolveLocals evaluates what can be, until nothing is left or nothing moves.
func (m *module) resolveLocals() error {
	left := map[string]hclsyntax.Expression{}
	for _, b := range m.blocks {
		if b.Type != "locals" {
			continue
		}
		for name, a := range b.Body.Attributes {
			left[name] = a.Expr
		}
	}
	for len(left) > 0 {
		before, last := len(left), hcl.Diagnostics(nil)
		for name, expr := range left {
			v, diags := expr.Value(m.context())
			if diags.HasErrors() {
				last = diags
				continue
			}
			m.locals[name] = v
			delete(left, name)
		}
		if len(left) == before {
			return last
		}
	}
	return nil
}

func (m *module) resources() (map[string]any, error) {
	out := map[string]any{}
	for _, b := range m.blocks {
		switch b.Type {
		case "resource", "output":
			body, err := m.body(b.Body)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", strings.Join(b.Labels, "."), err)
			}
			out[strings.Join(b.Labels, ".")] = body
		}
	}
	return out, nil
}

// body evaluates attributes and nested blocks.
func (m *module) body(b *hclsyntax.Body) (map[string]any, error) {
	out := map[string]any{}
	for name, a := range b.Attributes {
		v, diags := a.Expr.Value(m.context())
		if diags.HasErrors() {
			return nil, diags
		}
		text, err := ctyjson.Marshal(v, v.Type())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = json.RawMessage(text)
	}
	for _, nested := range b.Blocks {
		body, err := m.body(nested.Body)
		if err != nil {
			return nil, err
		}
		all, _ := out[nested.Type].([]any)
		out[nested.Type] = append(all, body)
	}
	return out, nil
}
