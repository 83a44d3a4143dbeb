// Command apidoc writes docs/api.md, the reference of the wire contract, from what the
// .proto files say: it reads the descriptor set, comments included, that `buf build`
// makes of them. `make generate` runs it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

func main() {
	out := flag.String("o", "", "the file to write; standard output if empty")
	flag.Parse()
	if err := run(os.Stdin, *out); err != nil {
		fmt.Fprintln(os.Stderr, "apidoc:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, name string) error {
	b, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read the descriptor set: %w", err)
	}
	files, err := contract(b)
	if err != nil {
		return err
	}
	text := render(files)
	if name == "" {
		_, err = io.WriteString(os.Stdout, text)
		return err
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

// contractPackage is what is documented; what it imports is somebody else's.
const contractPackage = "txcoord.v1"

// contract returns the files of the contract, in the order of a descriptor set: what is
// imported comes first.
func contract(set []byte) ([]protoreflect.FileDescriptor, error) {
	var fds descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(set, &fds); err != nil {
		return nil, fmt.Errorf("read the descriptor set: %w", err)
	}
	all, err := protodesc.NewFiles(&fds)
	if err != nil {
		return nil, fmt.Errorf("link the descriptor set: %w", err)
	}
	var files []protoreflect.FileDescriptor
	for _, fd := range fds.GetFile() {
		if fd.GetPackage() != contractPackage {
			continue
		}
		if len(fd.GetSourceCodeInfo().GetLocation()) == 0 {
			return nil, fmt.Errorf("%s has no comments: the descriptor set was made without source information", fd.GetName())
		}
		file, err := all.FindFileByPath(fd.GetName())
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return nil, errors.New("the descriptor set has no file of package " + contractPackage)
	}
	return files, nil
}
