package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"github.com/txcoord/txcoord/coordinator/rpc"
	"github.com/txcoord/txcoord/internal/nearest"
)

// BeforeResolve reads the configuration file. What is given as a flag counts first,
// then the environment, then the file, then the default.
func (c *Config) BeforeResolve(ctx *kong.Context, s *session) error {
	path := configPath(ctx, s.env)
	if path == "" {
		return nil
	}
	file, err := readConfig(path, serveFlags(ctx))
	if err != nil {
		return usage("--config", path, err.Error())
	}
	ctx.AddResolver(fromFile(file, s.env))
	return nil
}

// fromFile fills flags from a file that the environment says nothing of.
func fromFile(file map[string]any, env lookup) kong.Resolver {
	before := fromEnvironment(env)
	return kong.ResolverFunc(func(c *kong.Context, p *kong.Path, flag *kong.Flag) (any, error) {
		// The last resolver with a value counts, and the environment is asked before.
		if v, err := before.Resolve(c, p, flag); v != nil || err != nil {
			return v, err
		}
		return file[flag.Name], nil
	})
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

// readConfig reads a file. Relative paths in it are taken from its folder, so that it
// means the same wherever a server is started. Beside an error it answers what could be read;
// what could not has no value.
func readConfig(path string, flags fileFlags) (map[string]any, error) {
	raw, err := readText("--config", path)
	if err != nil {
		return nil, err
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	out, err := parseConfig(raw, flags)
	for name, value := range out {
		out[name] = from(folder, flags[name], value)
	}
	return out, err
}

// from is a value of a flag with its paths, if it has any, taken from a folder.
func from(folder string, flag *kong.Flag, value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = from(folder, flag, v[i])
		}
	case string:
		for _, scheme := range []string{"bolt:", socketScheme} {
			if path, ok := strings.CutPrefix(v, scheme); ok && path != "" && (flag.Name == "store" || flag.Name == "listen") {
				return scheme + absolute(folder, path)
			}
		}
		if v != "" && slices.Contains([]string{"FILE", "PATH", "PREFIX"}, flag.PlaceHolder) && !strings.Contains(v, "://") {
			return absolute(folder, v)
		}
	}
	return value
}

func absolute(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// parseConfig reads a file: a mapping of flags' names to their values. It refuses
// what it does not know, and names all that it refuses.
func parseConfig(raw []byte, flags fileFlags) (map[string]any, error) {
	var doc yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document in it; write all into the first")
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: want a mapping, such as `warehouse: /srv/lake`", top.Line)
	}
	out := map[string]any{}
	var wrong []error
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		flag, ok := flags[key.Value]
		if !ok {
			wrong = append(wrong, fmt.Errorf("line %d: there is no %q; docs/configuration.md lists what there is%s", key.Line, key.Value, nearest.Meant(key.Value, sortedKeys(flags))))
			continue
		}
		if _, twice := out[key.Value]; twice {
			wrong = append(wrong, fmt.Errorf("line %d: %s stands there twice", key.Line, key.Value))
		}
		v, err := fileValue(flag, value)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("line %d: %s: %w", value.Line, key.Value, err))
		}
		out[key.Value] = v
	}
	return out, errors.Join(wrong...)
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
			if _, twice := m[n.Content[i].Value]; twice {
				return nil, fmt.Errorf("%s stands there twice", n.Content[i].Value)
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
	Check configCheckCommand `cmd:"" help:"Say what is wrong with a configuration file. Of what it names only the TLS, access and password files are opened."`
	Print configPrintCommand `cmd:"" help:"Print the configuration that serve would have, with where each value comes from."`
}

type configPrintCommand struct {
	File string `arg:"" optional:"" help:"The configuration file; without it $$TXCOORD_CONFIG, if that is set."`
}

func (c *configPrintCommand) Run(_ context.Context, s *session) error {
	_, all, err := effective(s, c.File)
	if err != nil {
		return err
	}
	if s.Output == "json" {
		return s.tell("", settingsJSON(all))
	}
	for _, v := range all {
		text, err := yaml.Marshal(map[string]any{v.name: v.value})
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		lines[0] += " # " + v.from
		if v.name == "limit" {
			lines = append(lines, otherLimits(v.value)...)
		}
		if err := s.say(strings.Join(lines, "\n")); err != nil {
			return err
		}
	}
	return nil
}

// settingsJSON has each flag by its name, with its value as text where it is a duration.
func settingsJSON(all []setting) object {
	out := object{}
	for _, v := range all {
		if d, ok := v.value.(time.Duration); ok {
			v.value = d.String()
		}
		out = append(out, field{v.name, object{{"value", v.value}, {"from", v.from}}})
	}
	return out
}

// otherLimits are those that are not set, as comments.
func otherLimits(set any) (lines []string) {
	given, _ := set.(map[string]string)
	for _, l := range limits {
		if _, ok := given[l.name]; !ok {
			lines = append(lines, fmt.Sprintf("    # %s: %s", l.name, l.def))
		}
	}
	return lines
}

// setting is a flag of serve with its value.
type setting struct {
	name, from string
	value      any
}

// effective parses what `serve --config FILE` would, and validates it.
func effective(s *session, path string) (*Config, []setting, error) {
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
		return nil, nil, err
	}
	ctx, err := parser.Parse(args)
	if err != nil {
		return nil, nil, usageOf(err)
	}
	var file map[string]any
	if path = configPath(ctx, s.env); path != "" {
		if file, err = readConfig(path, serveFlags(ctx)); err != nil {
			return nil, nil, err
		}
	}
	var out []setting
	for name, flag := range serveFlags(ctx) {
		out = append(out, setting{name, origin(flag, file, s.env), ctx.FlagValue(flag)})
	}
	slices.SortFunc(out, func(a, b setting) int { return strings.Compare(a.name, b.name) })
	return &grammar.Serve.Config, out, nil
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
