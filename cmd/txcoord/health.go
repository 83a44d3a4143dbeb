package main

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/txcoord/txcoord/coordinator/rpc"
)

// healthCommand is for containers, whose image holds no other program that could ask.
// It shows nothing that says who asks, and needs no rights.
type healthCommand struct{}

func (healthCommand) Run(ctx context.Context, s *session) error {
	if strings.Contains(s.Server, ",") {
		return usage("--server", s.Server, "ask one server at a time")
	}
	if err := s.addressWithoutPassword(); err != nil {
		return err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	creds := insecure.NewCredentials()
	config, err := s.tls()
	if err != nil {
		return err
	}
	if config != nil {
		creds = credentials.NewTLS(config)
	}
	conn, err := grpc.NewClient(s.Server, grpc.WithTransportCredentials(creds))
	if err != nil {
		return usage("--server", s.Server, "give the server's address as host:port, or unix:PATH")
	}
	defer conn.Close()
	request := &healthpb.HealthCheckRequest{Service: rpc.HealthOf(s.Catalog)}
	answer, err := healthpb.NewHealthClient(conn).Check(ctx, request, grpc.WaitForReady(s.AwaitServer))
	switch {
	case err != nil:
		err = fmt.Errorf("ask %s whether it serves catalog %s: %s", s.Server, s.Catalog, status.Convert(err).Message())
	case answer.GetStatus() != healthpb.HealthCheckResponse_SERVING:
		err = fmt.Errorf("%s does not serve catalog %s now: %s", s.Server, s.Catalog, answer.GetStatus())
	default:
		return s.tell("catalog "+s.Catalog+" is served", object{{"catalog", s.Catalog}, {"serving", true}})
	}
	return &codedError{err, exitUnavailable}
}
