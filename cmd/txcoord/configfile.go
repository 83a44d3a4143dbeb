package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"github.com/txcoord/txcoord/coordinator/rpc"
)

// BeforeResolve reads the configuration file. What is given as a flag counts first,
// then the environment, then the file, then the default.
func (c *Config) BeforeResolve(ctx *kong.Context, s *session) error {
	path := configPath(ctx, s.env)
	if path == "" {
		return nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return usage("--config", path, err.Error())
	}
	file, err := parseConfig(raw, serveFlags(ctx))
	if err != nil {
		return usage("--config", path, err.Error())
	}
	env := fromEnvironment(s.env)
	ctx.AddResolver(kong.ResolverFunc(func(c *kong.Context, p *kong.Path, flag *kong.Flag) (any, error) {
		// The last resolver with a value counts, and the environment is asked before.
		if v, err := env.Resolve(c, p, flag); v != nil || err != nil {
			return v, err
		}
		return file[flag.Name], nil
	}))
	return nil
}

// configPath is what --config or the environment says.
func configPath(ctx *kong.Context, env lookup) string {
	for _, p := range ctx.Path {
		if p.Flag != nil && p.Flag.Name == "config" {
			path, _ := ctx.FlagValue(p.Flag).(string)
			return path
		}
	}
	if path, ok := env("TXCOORD_CONFIG"); ok {
		return path
	}
	return ""
}

// fileFlags are the flags that a configuration file may set, by name.
type fileFlags map[string]*kong.Flag

// notInFile are flags that say something about one start, not about a server.
var notInFile = []string{"config", "help", "list-limits", "warehouse-moved"}

// serveFlags are those of the command that is parsed.
func serveFlags(ctx *kong.Context) fileFlags {
	out := fileFlags{}
	for _, p := range ctx.Path {
		node := p.Node()
		if p.Flag != nil || node == nil {
			continue
		}
		for _, f := range node.Flags {
			if !slices.Contains(notInFile, f.Name) && !slices.Contains(notOf["serve"], f.Name) {
				out[f.Name] = f
			}
		}
	}
	return out
}

// parseConfig reads a file: a mapping of flags' names to their values. It refuses
// what it does not know.
func parseConfig(raw []byte, flags fileFlags) (map[string]any, error) {
	var doc yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(raw)).Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: want a mapping, such as `warehouse: /srv/lake`", top.Line)
	}
	out := map[string]any{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		flag, ok := flags[key.Value]
		if !ok {
			return nil, fmt.Errorf("line %d: there is no %q; docs/configuration.md lists what there is", key.Line, key.Value)
		}
		if _, twice := out[key.Value]; twice {
			return nil, fmt.Errorf("line %d: %s stands there twice", key.Line, key.Value)
		}
		v, err := fileValue(flag, value)
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", value.Line, key.Value, err)
		}
		out[key.Value] = v
	}
	return out, nil
}

// fileValue is a value as kong takes it. Scalars stay text, as on the command line,
// so that a size of 1e3 or a name of `no` means here what it means there.
func fileValue(flag *kong.Flag, n *yaml.Node) (any, error) {
	switch {
	case flag.IsMap():
		if n.Kind != yaml.MappingNode {
			return nil, errors.New("want a mapping")
		}
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i+1].Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("%s: want one value", n.Content[i].Value)
			}
			m[n.Content[i].Value] = n.Content[i+1].Value
		}
		return m, nil
	case flag.IsSlice() && n.Kind == yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return nil, errors.New("want a list of values")
			}
			list = append(list, item.Value)
		}
		return list, nil
	case n.Kind != yaml.ScalarNode:
		return nil, errors.New("want one value")
	case flag.IsSlice():
		return []any{n.Value}, nil
	}
	return n.Value, nil
}

type configCommands struct {
	Check configCheckCommand `cmd:"" help:"Say what is wrong with a configuration file; nothing is opened."`
	Print configPrintCommand `cmd:"" help:"Print the configuration that serve would have, with where each value comes from."`
}

type configCheckCommand struct {
	File string `arg:"" help:"The configuration file."`
}

func (c *configCheckCommand) Run(_ context.Context, s *session) error {
	if _, err := effective(s, c.File); err != nil {
		return err
	}
	return s.say(c.File + " is in order")
}

type configPrintCommand struct {
	File string `arg:"" optional:"" help:"The configuration file; without it $$TXCOORD_CONFIG, if that is set."`
}

func (c *configPrintCommand) Run(_ context.Context, s *session) error {
	all, err := effective(s, c.File)
	if err != nil {
		return err
	}
	for _, v := range all {
		text, err := yaml.Marshal(map[string]any{v.name: v.value})
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		lines[0] += " # " + v.from
		if err := s.say(strings.Join(lines, "\n")); err != nil {
			return err
		}
	}
	return nil
}

// setting is a flag of serve with its value.
type setting struct {
	name, from string
	value      any
}

// effective parses what `serve --config FILE` would, and validates it.
func effective(s *session, path string) ([]setting, error) {
	args := []string{"serve"}
	if s.Catalog != rpc.DefaultCatalog {
		args = append(args, "--catalog", s.Catalog)
	}
	if path != "" {
		args = append(args, "--config", path)
	}
	var grammar commands
	parser, err := newParser(&grammar, s)
	if err != nil {
		return nil, err
	}
	ctx, err := parser.Parse(args)
	if err != nil {
		return nil, usageOf(err)
	}
	var file map[string]any
	if path = configPath(ctx, s.env); path != "" {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if file, err = parseConfig(raw, serveFlags(ctx)); err != nil {
			return nil, err
		}
	}
	var out []setting
	for name, flag := range serveFlags(ctx) {
		out = append(out, setting{name, origin(flag, file, s.env), ctx.FlagValue(flag)})
	}
	slices.SortFunc(out, func(a, b setting) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

func origin(flag *kong.Flag, file map[string]any, env lookup) string {
	if name := flag.Tag.Get("environ"); name != "" {
		if v, ok := env(name); ok && v != "" {
			return "$" + name
		}
	}
	if _, ok := file[flag.Name]; ok {
		return "file"
	}
	return "default"
}
