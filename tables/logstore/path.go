package logstore

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Schemes under which Spark may know tables on S3. Spark keys its entries by the
// scheme that its users write, so all writers of a table have to use one.
var Schemes = []string{"s3a", "s3", "s3n"}

// PathError says why a table cannot have entries that Spark finds.
type PathError struct{ URI, Reason, Remedy string }

func (e *PathError) Error() string { return fmt.Sprintf("%s %s; %s", e.URI, e.Reason, e.Remedy) }

// TablePath is the key of a table's entries: its root as a Hadoop path, with the
// scheme that Spark's users write in place of s3. The URI is canonical (absolute,
// decoded but for percent, question and number signs, without trailing or double
// slashes).
func TablePath(uri, scheme string) (string, error) {
	refuse := func(reason, remedy string) (string, error) { return "", &PathError{uri, reason, remedy} }
	own, rest, ok := strings.Cut(uri, "://")
	if !ok {
		return refuse("is not a URI", "give the table's location as a URI")
	}
	bucket, path, _ := strings.Cut(rest, "/")
	decoded, err := url.PathUnescape(path)
	if err != nil || strings.ContainsAny(decoded, "%?#: \\") {
		return refuse("has a character that writers encode in different ways, so that they would not find each other's entries",
			"put the table under a path without spaces and the characters % ? # : \\")
	}
	switch own {
	case "s3":
		if !isHost(bucket) {
			return refuse("has a bucket whose name is not a host name, and Spark leaves it out of its entries' keys",
				"put the table into a bucket named with letters, digits, single dots and inner hyphens, whose part behind the last dot begins with a letter")
		}
		return strings.TrimSuffix(scheme+"://"+bucket+"/"+decoded, "/"), nil
	case "file":
		return "file:/" + decoded, nil // as Hadoop writes file:///x
	}
	return refuse("is not on S3", "keep tables that are shared by way of a log store on S3")
}

// host is RFC 2396's hostname as java.net.URI takes it.
var host = regexp.MustCompile(`^([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]*[A-Za-z0-9])(\.([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]*[A-Za-z0-9]))*$`)

func isHost(bucket string) bool {
	if !host.MatchString(bucket) {
		return false
	}
	dot := strings.LastIndexByte(bucket, '.')
	return dot < 0 || bucket[dot+1] > '9'
}

// aliases are other keys under which a writer may have made entries of the table.
func aliases(uri, tablePath string) []string {
	var out []string
	schemes := []string{""}
	if strings.HasPrefix(uri, "s3://") {
		schemes = Schemes
	}
	for _, scheme := range schemes {
		path, err := TablePath(uri, scheme)
		if err != nil {
			continue
		}
		for _, alias := range []string{path, path + "/"} {
			if alias != tablePath && !slices.Contains(out, alias) {
				out = append(out, alias)
			}
		}
	}
	return out
}
