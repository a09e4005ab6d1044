package settings

import (
	"errors"
	"fmt"
	"slices"

	"github.com/capgate/capgate/gateway/upstream/grpcservice"
)

// grpcService is what the files that a fleet of gRPC services names have.
type grpcService struct {
	Definitions *grpcservice.Definitions // nil: by server reflection
	Headers     map[string]string
}

// readGRPCServices reads the files that fleets of gRPC services name. Unchanged definitions are reused.
func (s *Settings) readGRPCServices(before *Settings) (problems []error) {
	s.GRPC = map[string]grpcService{}
	for i := range s.Config.Fleets {
		f := &s.Config.Fleets[i]
		of, is := f.Settings.(*grpcservice.Settings)
		if !is {
			continue
		}
		fail := func(err error) {
			for _, problem := range Problems(err) {
				problems = append(problems, fmt.Errorf("fleet %s: grpc_service: %w", f.Capability, problem))
			}
		}
		var read grpcService
		var err error
		if read.Headers, err = s.headersFor(of.HeadersFile, of.HeadersEnv, grpcservice.ReservedHeader); err != nil {
			fail(err)
		}
		if err = errors.Join(grpcservice.CheckMethods(of.Methods, of.ToolNames)...); err != nil {
			fail(err)
		} else if read.Definitions, err = s.definitionsOf(f.Capability, of, before); err != nil {
			fail(err)
		}
		s.GRPC[f.Capability] = read
	}
	return problems
}

// definitionsOf reads a descriptor file; nil: the fleet has none.
func (s *Settings) definitionsOf(capability string, of *grpcservice.Settings, before *Settings) (
	*grpcservice.Definitions, error) {
	if of.DescriptorFile == "" {
		return nil, nil
	}
	data, err := s.Files.Read(of.DescriptorFile)
	if err != nil {
		return nil, fmt.Errorf("descriptor_file: %w", err)
	}
	if before != nil && s.Files.agree(before.Files, of.DescriptorFile) {
		for i := range before.Config.Fleets {
			old, is := before.Config.Fleets[i].Settings.(*grpcservice.Settings)
			if is && before.Config.Fleets[i].Capability == capability && old.DescriptorFile == of.DescriptorFile &&
				old.ToolNames == of.ToolNames && slices.Equal(old.Methods, of.Methods) {
				return before.GRPC[capability].Definitions, nil
			}
		}
	}
	definitions, err := grpcservice.Parse(data, of.Methods, of.ToolNames)
	if err != nil {
		var all []error
		for _, problem := range Problems(err) {
			all = append(all, wrongFile(of.DescriptorFile, "%s: %w", of.DescriptorFile, problem))
		}
		return nil, errors.Join(all...)
	}
	return definitions, nil
}
