package main // of a command, which cannot be imported

import (
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// TestEveryNameIsInTheReference compares docs/api.md with the generated code, which
// knows the names, not the comments.
func TestEveryNameIsInTheReference(t *testing.T) {
	b, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for section := range strings.SplitSeq(string(b), "\n##") {
		title, text, _ := strings.Cut(section, "\n")
		sections[strings.TrimLeft(title, "# ")] = text
	}
	for _, f := range ours() {
		for s := range each(f.Services()) {
			for m := range each(s.Methods()) {
				text := sections[string(s.Name()+"."+m.Name())]
				if !strings.Contains(text, string(m.Input().Name())) || !strings.Contains(text, string(m.Output().Name())) {
					t.Errorf("%s is not there with what it takes and answers:\n%s", m.FullName(), text)
				}
			}
		}
		for m := range each(f.Messages()) {
			for field := range each(m.Fields()) {
				wantRow(t, sections[string(m.Name())], field)
			}
		}
		for e := range each(f.Enums()) {
			for v := range each(e.Values()) {
				wantRow(t, sections[string(e.Name())], v)
			}
		}
	}
}

func ours() []protoreflect.FileDescriptor {
	return []protoreflect.FileDescriptor{
		txcoordv1.File_txcoord_v1_common_proto, txcoordv1.File_txcoord_v1_errors_proto, txcoordv1.File_txcoord_v1_operations_proto,
		txcoordv1.File_txcoord_v1_snapshots_proto, txcoordv1.File_txcoord_v1_status_proto, txcoordv1.File_txcoord_v1_tables_proto,
		txcoordv1.File_txcoord_v1_transactions_proto,
	}
}

// wantRow wants a row of the table in a section, with something said in it.
func wantRow(t *testing.T, section string, d protoreflect.Descriptor) {
	t.Helper()
	for line := range strings.SplitSeq(section, "\n") {
		if strings.HasPrefix(line, "| `"+string(d.Name())+"` |") && !strings.HasSuffix(line, "|  |") {
			return
		}
	}
	t.Errorf("nothing is said of %s", d.FullName())
}

func TestComments(t *testing.T) {
	p := &page{links: map[string]string{"FieldDetail": "#fielddetail", "Freeze": "#freeze"}, here: "ReadSet"}
	for _, c := range []struct{ comment, want string }{
		{" A `<position>` of <a|b>,\n with FieldDetail.\n", "A `<position>` of &lt;a\\|b>, with [FieldDetail](#fielddetail)."},
		{" Freeze it.\n\n ReadSet and `FieldDetail`.\n", "Freeze it.<br>ReadSet and `FieldDetail`."},
	} {
		if got := p.cell(c.comment); got != c.want {
			t.Errorf("%q becomes %q, want %q", c.comment, got, c.want)
		}
	}
	if got, want := p.prose(" A list:\n\n   - one\n     more\n"), "A list:\n\n  - one\n    more\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDescriptorSetsWithoutCommentsAreRefused(t *testing.T) {
	set := &descriptorpb.FileDescriptorSet{}
	for _, f := range []protoreflect.FileDescriptor{descriptorpb.File_google_protobuf_descriptor_proto} {
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	}
	foreign, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := contract(foreign); err == nil || !strings.Contains(err.Error(), contractPackage) {
		t.Errorf("a set without our files: %v", err)
	}
	set.File = append(set.File, &descriptorpb.FileDescriptorProto{Name: proto.String("a.proto"), Package: proto.String(contractPackage)})
	bare, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := contract(bare); err == nil || !strings.Contains(err.Error(), "a.proto has no comments") {
		t.Errorf("a set without comments: %v", err)
	}
}
