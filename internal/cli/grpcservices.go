package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/capgate/capgate/gateway/upstream/grpcservice"
)

// grpcService is what the files that a fleet of gRPC services names have.
type grpcService struct {
	definitions *grpcservice.Definitions // nil: by server reflection
	headers     map[string]string
}

// readGRPCServices reads the files that fleets of gRPC services name. Unchanged definitions are reused.
func (s *settings) readGRPCServices(before *settings) (problems []error) {
	s.grpc = map[string]grpcService{}
	for i := range s.cfg.Fleets {
		f := &s.cfg.Fleets[i]
		of, is := f.Settings.(*grpcservice.Settings)
		if !is {
			continue
		}
		fail := func(err error) {
			for _, problem := range problemsOf(err) {
				problems = append(problems, fmt.Errorf("fleet %s: grpc_service: %w", f.Capability, problem))
			}
		}
		var read grpcService
		var err error
		if read.headers, err = s.headersFor(of.HeadersFile, of.HeadersEnv, grpcservice.ReservedHeader); err != nil {
			fail(err)
		}
		if err = errors.Join(grpcservice.CheckMethods(of.Methods, of.ToolNames)...); err != nil {
			fail(err)
		} else if read.definitions, err = s.definitionsOf(f.Capability, of, before); err != nil {
			fail(err)
		}
		s.grpc[f.Capability] = read
	}
	return problems
}

// definitionsOf reads a descriptor file; nil: the fleet has none.
func (s *settings) definitionsOf(capability string, of *grpcservice.Settings, before *settings) (
	*grpcservice.Definitions, error) {
	if of.DescriptorFile == "" {
		return nil, nil
	}
	data, err := s.files.read(of.DescriptorFile)
	if err != nil {
		return nil, fmt.Errorf("descriptor_file: %w", err)
	}
	if before != nil && s.files.agree(before.files, of.DescriptorFile) {
		for i := range before.cfg.Fleets {
			old, is := before.cfg.Fleets[i].Settings.(*grpcservice.Settings)
			if is && before.cfg.Fleets[i].Capability == capability && old.DescriptorFile == of.DescriptorFile &&
				old.ToolNames == of.ToolNames && slices.Equal(old.Methods, of.Methods) {
				return before.grpc[capability].definitions, nil
			}
		}
	}
	definitions, err := grpcservice.Parse(data, of.Methods, of.ToolNames)
	if err != nil {
		var all []error
		for _, problem := range problemsOf(err) {
			all = append(all, wrongFile(of.DescriptorFile, "%s: %w", of.DescriptorFile, problem))
		}
		return nil, errors.Join(all...)
	}
	return definitions, nil
}
