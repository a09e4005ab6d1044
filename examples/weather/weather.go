package weather

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/status"

	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Config bounds a Server's memory. The zero value works.
type Config struct {
	Now func() time.Time // clock; default time.Now. Dates are those of UTC

	MaxArtifacts     int           // files held, uploaded and written; default 64. The oldest is deleted first
	MaxArtifactBytes int           // largest upload; default 32 MiB
	MaxHeldBytes     int           // all files, including unfinished uploads; default 64 MiB
	ArtifactTTL      time.Duration // lifetime of a file; default 1h
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.MaxArtifacts <= 0 {
		c.MaxArtifacts = 64
	}
	if c.MaxArtifactBytes <= 0 {
		c.MaxArtifactBytes = 32 << 20
	}
	if c.MaxHeldBytes <= 0 {
		c.MaxHeldBytes = 64 << 20
	}
	if c.ArtifactTTL <= 0 {
		c.ArtifactTTL = time.Hour
	}
	return c
}

// Server is the capability. It is safe for concurrent use, starts no goroutine
// and needs no closing.
type Server struct {
	docpb.UnimplementedCapabilityServer

	now       func() time.Time
	places    *gazetteer
	artifacts *artifactStore
	maxUpload int // bytes
	tools     map[string]tool
}

// New returns a capability that is ready to serve. It fails only if the built-in table of cities cannot be read.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	places, err := readNormals(strings.NewReader(normalsCSV))
	if err != nil {
		return nil, fmt.Errorf("weather: read the climate normals: %w", err)
	}
	s := &Server{now: cfg.Now, places: places, artifacts: newArtifactStore(cfg), maxUpload: cfg.MaxArtifactBytes}
	s.tools = map[string]tool{
		"get_current_weather": s.currentWeather,
		"get_forecast":        s.forecast,
		"export_report":       s.exportReport,
	}
	return s, nil
}

// Invoke runs a tool and returns its whole result. A tool's failure is in the response's error, with gRPC status OK.
func (s *Server) Invoke(ctx context.Context, req *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
	out, err := s.run(ctx, req)
	if ctx.Err() != nil {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if err != nil {
		return &docpb.InvokeResponse{Error: err.Error()}, nil
	}
	result, err := json.Marshal(out.whole)
	if err != nil {
		return nil, fmt.Errorf("encode the result: %w", err)
	}
	return &docpb.InvokeResponse{ResultJson: result}, nil
}

// StreamInvoke runs a tool and sends its result in parts, such as a day at a time for a forecast. The last chunk has
// done set, and the error of a failed tool.
func (s *Server) StreamInvoke(req *docpb.InvokeRequest, stream docpb.Capability_StreamInvokeServer) error {
	ctx := stream.Context()
	out, err := s.run(ctx, req)
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	if err != nil {
		return stream.Send(&docpb.InvokeChunk{Done: true, Error: err.Error()})
	}
	for i, part := range out.parts {
		data, err := json.Marshal(part)
		if err != nil {
			return fmt.Errorf("encode part %d of the result: %w", i, err)
		}
		if err := stream.Send(&docpb.InvokeChunk{Data: data, Done: i == len(out.parts)-1}); err != nil {
			return err
		}
	}
	return nil
}

// Healthcheck always reports ready: everything that the tools need is in the binary.
func (s *Server) Healthcheck(context.Context, *docpb.HealthRequest) (*docpb.HealthResponse, error) {
	return &docpb.HealthResponse{Ready: true, Message: fmt.Sprintf("%d cities", len(s.places.all))}, nil
}

func (s *Server) run(ctx context.Context, req *docpb.InvokeRequest) (result, error) {
	run, ok := s.tools[req.GetToolName()]
	if !ok {
		names := slices.Sorted(maps.Keys(s.tools))
		return result{}, fmt.Errorf("unknown tool %.64q; there are %s", req.GetToolName(), strings.Join(names, ", "))
	}
	return run(ctx, req.GetArgsJson())
}
