package localgrpc

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// apply applies a call option. An unknown option is an error.
func (s *clientStream) apply(o grpc.CallOption) error {
	switch o := o.(type) {
	case grpc.EmptyCallOption, grpc.MaxSendMsgSizeCallOption, grpc.FailFastCallOption:
	case grpc.HeaderCallOption:
		s.headers = append(s.headers, o.HeaderAddr)
	case grpc.TrailerCallOption:
		s.trailers = append(s.trailers, o.TrailerAddr)
	case grpc.MaxRecvMsgSizeCallOption:
		s.max = o.MaxRecvMsgSize
	case grpc.ForceCodecCallOption:
		s.codec = codecV1{o.Codec}
	case grpc.ForceCodecV2CallOption:
		s.codec = codecV2{o.CodecV2}
	case grpc.AuthorityOverrideCallOption:
		s.authority = o.Authority
	case grpc.OnFinishCallOption:
		s.onFinish = append(s.onFinish, o.OnFinish)
	case grpc.StaticMethodCallOption:
	default:
		return status.Errorf(codes.Internal, "local streams have no call option %T", o)
	}
	return nil
}
