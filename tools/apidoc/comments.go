package main

import (
	"iter"
	"regexp"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// each walks protoreflect's lists.
func each[T any](list interface {
	Len() int
	Get(i int) T
},
) iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range list.Len() {
			if !yield(list.Get(i)) {
				return
			}
		}
	}
}

func comment(d protoreflect.Descriptor) string {
	return d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments
}

// preface is what stands in a file before its first type or service, and is the
// comment of neither.
func preface(f protoreflect.FileDescriptor) string {
	var all []string
	for d := range declarations(f) {
		all = append(all, f.SourceLocations().ByDescriptor(d).LeadingDetachedComments...)
	}
	return strings.Join(all, "\n\n")
}

func declarations(f protoreflect.FileDescriptor) iter.Seq[protoreflect.Descriptor] {
	return func(yield func(protoreflect.Descriptor) bool) {
		for s := range each(f.Services()) {
			if !yield(s) {
				return
			}
		}
		for e := range each(f.Enums()) {
			if !yield(e) {
				return
			}
		}
		for m := range each(f.Messages()) {
			if !yield(m) {
				return
			}
		}
	}
}

// prose is a comment as paragraphs and lists.
func (p *page) prose(text string) string {
	if strings.TrimSpace(text) == "" {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, " ")
	}
	return p.marked(strings.Join(lines, "\n")) + "\n\n"
}

// cell is a comment on one line of a table.
func (p *page) cell(text string) string {
	var paragraphs []string
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if words := strings.Fields(paragraph); len(words) > 0 {
			paragraphs = append(paragraphs, strings.Join(words, " "))
		}
	}
	return strings.ReplaceAll(p.marked(strings.Join(paragraphs, "<br>")), "|", `\|`)
}

// marked links the names of the contract, and keeps what looks like HTML from being
// taken for it. Code stays as it is.
func (p *page) marked(text string) string {
	parts := strings.Split(text, "`")
	for i := range parts {
		if i%2 == 0 {
			parts[i] = name.ReplaceAllStringFunc(htmlSafe.Replace(parts[i]), func(word string) string {
				return p.link(protoreflect.Name(word))
			})
		}
	}
	return strings.Join(parts, "`")
}

var (
	// name fits what can only be meant as a name of the contract: no word that may
	// begin a sentence.
	name = regexp.MustCompile(`\b[A-Z][a-z]+[A-Z][A-Za-z]+\b|\b[a-z]+\.proto\b`)
	// htmlSafe leaves the line breaks that cell wrote.
	htmlSafe = strings.NewReplacer("<br>", "<br>", "<", "&lt;")
)
