package main

import (
	"context"
	"os"
	"strings"

	"github.com/txcoord/txcoord/tables/objstore/azobj"
	"github.com/txcoord/txcoord/tables/objstore/gcsobj"
	"github.com/txcoord/txcoord/tables/objstore/remote"
	"github.com/txcoord/txcoord/tables/objstore/s3obj"
)

// limits are the options that every kind of bucket has.
func (o bucketOptions) limits() (limits remote.Config, err error) {
	if limits.RequestTimeout, err = o.duration("timeout"); err != nil {
		return limits, err
	}
	if limits.HedgeAfter, err = o.duration("hedge"); err != nil {
		return limits, err
	}
	limits.MaxRequests, err = o.number("requests")
	return limits, err
}

// openS3: s3://name?region=…&endpoint=…&addressing=path&profile=….
func openS3(ctx context.Context, spec bucketSpec) (bucket, error) {
	limits, err := spec.limits()
	if err != nil {
		return nil, err
	}
	s, err := s3obj.New(ctx, s3obj.Config{
		Bucket: spec.name, Region: spec.get("region"), Endpoint: spec.get("endpoint"), Profile: spec.get("profile"),
		Addressing: s3obj.Addressing(spec.get("addressing")), Log: spec.log,
		RequestTimeout: limits.RequestTimeout, MaxRequests: limits.MaxRequests, HedgeAfter: limits.HedgeAfter,
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// openGCS: gs://name?credentials=PATH&endpoint=….
func openGCS(ctx context.Context, spec bucketSpec) (bucket, error) {
	limits, err := spec.limits()
	if err != nil {
		return nil, err
	}
	s, err := gcsobj.New(ctx, gcsobj.Config{
		Bucket: spec.name, Endpoint: spec.get("endpoint"), CredentialsFile: spec.get("credentials"), Anonymous: spec.get("anonymous") == "true",
		RequestTimeout: limits.RequestTimeout, MaxRequests: limits.MaxRequests, HedgeAfter: limits.HedgeAfter,
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// openAzure: az://container?account=…, or abfss://container@account.dfs.core.windows.net.
// Secrets come from the environment, as for Azure's own tools.
func openAzure(ctx context.Context, spec bucketSpec) (bucket, error) {
	limits, err := spec.limits()
	if err != nil {
		return nil, err
	}
	container, host, ok := strings.Cut(spec.name, "@")
	account, _, _ := strings.Cut(host, ".")
	if !ok {
		if account = spec.get("account"); account == "" {
			account = os.Getenv("AZURE_STORAGE_ACCOUNT")
		}
	}
	s, err := azobj.New(ctx, azobj.Config{
		Account: account, Container: container, Endpoint: spec.get("endpoint"),
		Key: os.Getenv("AZURE_STORAGE_KEY"), SAS: os.Getenv("AZURE_STORAGE_SAS_TOKEN"),
		RequestTimeout: limits.RequestTimeout, MaxRequests: limits.MaxRequests, HedgeAfter: limits.HedgeAfter,
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}
