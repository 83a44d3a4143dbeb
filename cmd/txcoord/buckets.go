package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
)

// BucketFlags say how buckets are reached, where the environment does not say it all.
// Secrets are never on the command line: options name profiles and files.
type BucketFlags struct {
	Bucket []string `help:"How to reach a bucket, if the environment does not say it all: s3://NAME?region=REGION&profile=PROFILE, or s3://*?endpoint=URL for all others. May be given several times; docs/object-stores.md has all options." placeholder:"URL" sep:"none"`
}

// bucket is a bucket that is open.
type bucket interface {
	objstore.Conditional
	// Check sees that it can be used below a prefix.
	Check(ctx context.Context, prefix string) error
	Close() error
}

// bucketKind is one kind of bucket. The table of them is all that a new one has to be
// added to.
type bucketKind struct {
	// scheme of its locations.
	scheme string
	// options that --bucket takes for it.
	options []string
	open    func(ctx context.Context, spec bucketSpec) (bucket, error)
}

var bucketKinds = []bucketKind{
	{"s3", []string{"region", "endpoint", "addressing", "profile", "timeout", "requests", "hedge"}, openS3},
	{"gs", []string{"endpoint", "credentials", "anonymous", "timeout", "requests", "hedge"}, openGCS},
	{"az", []string{"account", "endpoint", "timeout", "requests", "hedge"}, openAzure},
	{"abfss", []string{"endpoint", "timeout", "requests", "hedge"}, openAzure},
}

func kindOf(scheme string) (bucketKind, error) {
	i := slices.IndexFunc(bucketKinds, func(k bucketKind) bool { return k.scheme == scheme })
	if i < 0 {
		return bucketKind{}, fmt.Errorf("this build has no object store for %s://; it has file://, and buckets of %s", scheme, schemes())
	}
	return bucketKinds[i], nil
}

func schemes() string {
	var all []string
	for _, k := range bucketKinds {
		all = append(all, k.scheme+"://")
	}
	return strings.Join(all, ", ")
}

// bucketSpec is a bucket that is to be opened.
type bucketSpec struct {
	// name is what stands behind the scheme.
	name string
	bucketOptions
	log *slog.Logger
}

// bucketOptions are what --bucket says of one bucket, by name.
type bucketOptions struct {
	flag   string // as it was given, for errors
	values url.Values
}

func (o bucketOptions) bad(remedy string) error { return usage("--bucket", shown(o.flag), remedy) }

func (o bucketOptions) get(name string) string { return o.values.Get(name) }

// duration is an option's value; 0 if it is not given.
func (o bucketOptions) duration(name string) (time.Duration, error) {
	text := o.get(name)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, o.bad(fmt.Sprintf("option %s: %q is not a duration like 3s", name, text))
	}
	return d, nil
}

// number is an option's value; 0 if it is not given.
func (o bucketOptions) number(name string) (int, error) {
	text := o.get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		return 0, o.bad(fmt.Sprintf("option %s: %q is not a number above 0", name, text))
	}
	return n, nil
}

// parse takes the flags apart, by bucket.
func (f BucketFlags) parse() (map[string]bucketOptions, error) {
	all := map[string]bucketOptions{}
	var wrong []error
	for _, flag := range f.Bucket {
		key, o, err := parseBucket(flag)
		if _, twice := all[key]; err == nil && twice {
			err = o.bad(key + " is named twice")
		}
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		all[key] = o
	}
	return all, allOf(wrong...)
}

// parseBucket reads one flag --bucket.
func parseBucket(flag string) (key string, o bucketOptions, err error) {
	root, query, _ := strings.Cut(flag, "?")
	o = bucketOptions{flag: flag}
	scheme, name, ok := strings.Cut(strings.TrimSuffix(root, "/"), "://")
	scheme = strings.NewReplacer("s3a", "s3", "s3n", "s3").Replace(scheme)
	kind, err := kindOf(scheme)
	if err != nil || !ok || name == "" || strings.Contains(name, "/") {
		return "", o, o.bad("write s3://NAME?option=value&option=value, with one of " + schemes() + "; NAME * stands for all others")
	}
	if o.values, err = url.ParseQuery(query); err != nil {
		return "", o, o.bad("write the options behind ? as name=value&name=value")
	}
	if wrong := wrongOption(o.values, kind.options); wrong != "" {
		return "", o, o.bad(wrong)
	}
	if e := o.get("endpoint"); withoutPassword(e) != e {
		return "", o, o.bad("leave user and password out of the endpoint: credentials are read from files and variables")
	}
	return scheme + "://" + strings.ToLower(name), o, nil
}

// open opens the bucket of a place.
func (f BucketFlags) open(ctx context.Context, p placed, log *slog.Logger) (bucket, error) {
	all, err := f.parse()
	if err != nil {
		return nil, err
	}
	o, ok := all[p.root]
	if !ok {
		o = all[p.scheme+"://*"]
	}
	kind, err := kindOf(p.scheme)
	if err != nil {
		return nil, err
	}
	return kind.open(ctx, bucketSpec{strings.TrimPrefix(p.root, p.scheme+"://"), o, log.With("bucket", p.root)})
}
