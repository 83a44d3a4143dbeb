package main

import (
	"fmt"
	"path"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// page is the text so far, and what can be linked to.
type page struct {
	strings.Builder
	links map[string]string // from a name to its anchor
	here  string            // the section that is written, which needs no link to itself
}

const head = `# API

Generated from the ` + "`.proto`" + ` files in ` + "`proto/txcoord/v1`" + ` by ` + "`make generate`" + `: what is said here is said there. Servers offer reflection, so
` + "`grpcurl`" + ` and the like need no files. In tables, *list* is a repeated field, *optional* one whose absence is told from its zero value, and fields
of one *oneof* exclude each other.

`

func render(files []protoreflect.FileDescriptor) string {
	p := &page{links: map[string]string{}}
	p.index(files)
	p.WriteString(head)
	p.contents(files)
	for _, f := range files {
		p.services(f)
	}
	for _, f := range files {
		p.types(f)
	}
	return strings.TrimRight(p.String(), "\n") + "\n"
}

// index gives every service and type an anchor, as Markdown viewers derive it from
// the heading.
func (p *page) index(files []protoreflect.FileDescriptor) {
	for _, f := range files {
		p.links[path.Base(f.Path())] = anchor(path.Base(f.Path()))
		for s := range each(f.Services()) {
			p.links[string(s.Name())] = anchor(string(s.Name()))
		}
		for m := range each(f.Messages()) {
			p.links[string(m.Name())] = anchor(string(m.Name()))
		}
		for e := range each(f.Enums()) {
			p.links[string(e.Name())] = anchor(string(e.Name()))
		}
	}
}

func anchor(heading string) string {
	return "#" + strings.NewReplacer(".", "", " ", "-").Replace(strings.ToLower(heading))
}

func (p *page) contents(files []protoreflect.FileDescriptor) {
	for _, f := range files {
		for s := range each(f.Services()) {
			var names []string
			for m := range each(s.Methods()) {
				names = append(names, fmt.Sprintf("[%s](%s)", m.Name(), anchor(string(s.Name()+"."+m.Name()))))
			}
			fmt.Fprintf(p, "- [%s](%s): %s\n", s.Name(), p.links[string(s.Name())], strings.Join(names, ", "))
		}
	}
	for _, f := range files {
		fmt.Fprintf(p, "- Types of [%s](%s)\n", path.Base(f.Path()), anchor(path.Base(f.Path())))
	}
	p.WriteString("\n")
}

func (p *page) services(f protoreflect.FileDescriptor) {
	for s := range each(f.Services()) {
		p.here = string(s.Name())
		fmt.Fprintf(p, "## %s\n\n%s", s.Name(), p.prose(comment(s)))
		for m := range each(s.Methods()) {
			in, out := p.link(m.Input().Name()), p.link(m.Output().Name())
			if m.IsStreamingClient() {
				in = "stream of " + in
			}
			if m.IsStreamingServer() {
				out = "stream of " + out
			}
			fmt.Fprintf(p, "### %s.%s\n\n%s → %s\n\n%s", s.Name(), m.Name(), in, out, p.prose(comment(m)))
		}
	}
}

func (p *page) types(f protoreflect.FileDescriptor) {
	fmt.Fprintf(p, "## %s\n\n%s", path.Base(f.Path()), p.prose(preface(f)))
	for e := range each(f.Enums()) {
		p.enum(e)
	}
	for m := range each(f.Messages()) {
		p.message(string(m.Name()), m)
	}
}

func (p *page) enum(e protoreflect.EnumDescriptor) {
	p.here = string(e.Name())
	fmt.Fprintf(p, "### %s\n\n%s", e.Name(), p.prose(comment(e)))
	p.WriteString("| value | | |\n|---|---|---|\n")
	for v := range each(e.Values()) {
		fmt.Fprintf(p, "| `%s` | %d | %s |\n", v.Name(), v.Number(), p.cell(comment(v)))
	}
	p.WriteString("\n")
}

// message also writes what is declared inside it, except the entries of maps.
func (p *page) message(name string, m protoreflect.MessageDescriptor) {
	p.here = string(m.Name())
	fmt.Fprintf(p, "### %s\n\n%s", name, p.prose(comment(m)))
	if m.Fields().Len() > 0 {
		p.WriteString("| field | | type | |\n|---|---|---|---|\n")
	}
	for f := range each(m.Fields()) {
		fmt.Fprintf(p, "| `%s` | %d | %s | %s |\n", f.Name(), f.Number(), p.typeOf(f), p.cell(comment(f)))
	}
	p.WriteString("\n")
	for o := range each(m.Oneofs()) {
		if !o.IsSynthetic() {
			fmt.Fprintf(p, "Oneof `%s`: %s", o.Name(), p.prose(comment(o)))
		}
	}
	for e := range each(m.Enums()) {
		p.enum(e)
	}
	for inner := range each(m.Messages()) {
		if !inner.IsMapEntry() {
			p.message(name+"."+string(inner.Name()), inner)
		}
	}
}

func (p *page) typeOf(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return fmt.Sprintf("map of %s to %s", p.single(f.MapKey()), p.single(f.MapValue()))
	case f.IsList():
		return "list of " + p.single(f)
	case f.HasOptionalKeyword():
		return "optional " + p.single(f)
	case f.ContainingOneof() != nil:
		return fmt.Sprintf("%s, oneof `%s`", p.single(f), f.ContainingOneof().Name())
	default:
		return p.single(f)
	}
}

func (p *page) single(f protoreflect.FieldDescriptor) string {
	switch {
	case f.Message() != nil:
		return p.named(f.Message())
	case f.Enum() != nil:
		return p.named(f.Enum())
	default:
		return f.Kind().String()
	}
}

func (p *page) named(d protoreflect.Descriptor) string {
	if d.ParentFile().Package() == contractPackage {
		return p.link(d.Name())
	}
	return "`" + string(d.FullName()) + "`"
}

func (p *page) link(name protoreflect.Name) string {
	if to, ok := p.links[string(name)]; ok && string(name) != p.here {
		return fmt.Sprintf("[%s](%s)", name, to)
	}
	return string(name)
}
