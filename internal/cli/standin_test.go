package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// curl implements the part of curl that the documentation uses.
func curl(args []string) int {
	fs := flag.NewFlagSet("curl", flag.ContinueOnError)
	method := fs.String("X", "", "")
	data := fs.String("d", "", "")
	head := fs.Bool("i", false, "")
	_, _ = fs.Bool("s", false, ""), fs.Bool("N", false, "")
	h2 := fs.Bool("http2-prior-knowledge", false, "")
	header := http.Header{}
	fs.Func("H", "", func(v string) error {
		name, value, _ := strings.Cut(v, ":")
		header.Add(name, strings.TrimSpace(value))
		return nil
	})
	urls, err := anywhere(fs, args)
	if err != nil || len(urls) != 1 {
		return 2
	}
	if *data != "" {
		header.Set("Content-Type", "application/x-www-form-urlencoded")
		if *method == "" {
			*method = http.MethodPost
		}
	}
	if !strings.Contains(urls[0], "://") {
		urls[0] = "http://" + urls[0]
	}
	req, err := http.NewRequest(*method, urls[0], strings.NewReader(*data))
	if err != nil {
		return 3
	}
	req.Header = header
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!*h2)
	protocols.SetUnencryptedHTTP2(*h2)
	resp, err := (&http.Client{Transport: clienttest.Bound(&http.Transport{Protocols: protocols})}).Do(req)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 7
	}
	defer resp.Body.Close()
	if *head {
		fmt.Println(resp.Proto, resp.Status)
		_ = resp.Header.Write(os.Stdout)
		fmt.Println()
	}
	if _, err := io.Copy(os.Stdout, resp.Body); err != nil {
		return 18
	}
	return 0
}

// anywhere parses flags before, between and after the positional arguments, which it returns.
func anywhere(fs *flag.FlagSet, args []string) (positional []string, err error) {
	for {
		if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
			return positional, err
		}
		positional, args = append(positional, fs.Arg(0)), fs.Args()[1:]
	}
}

// grpcurl implements the part of grpcurl that the documentation uses: it learns the method's messages by
// reflection.
func grpcurl(args []string) int {
	fs := flag.NewFlagSet("grpcurl", flag.ContinueOnError)
	_ = fs.Bool("plaintext", false, "")
	data := fs.String("d", "{}", "")
	authority := fs.String("authority", "", "")
	ctx := context.Background()
	fs.Func("H", "", func(v string) error {
		name, value, _ := strings.Cut(v, ":")
		ctx = metadata.AppendToOutgoingContext(ctx, strings.ToLower(name), strings.TrimSpace(value))
		return nil
	})
	words, err := anywhere(fs, args)
	if err != nil || len(words) != 2 {
		return 2
	}
	opts := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if *authority != "" {
		opts = append(opts, grpc.WithAuthority(*authority))
	}
	conn, err := clienttest.NewConn(words[0], opts...)
	if err == nil {
		defer conn.Close()
		if words[1] == "list" {
			err = listServices(ctx, conn)
		} else {
			err = callMethod(ctx, conn, words[1], *data)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func askReflection(ctx context.Context, conn *grpc.ClientConn,
	req *reflectionpb.ServerReflectionRequest) (*reflectionpb.ServerReflectionResponse, error) {
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(stream.Send(req), stream.CloseSend()); err != nil {
		return nil, err
	}
	return stream.Recv()
}

func listServices(ctx context.Context, conn *grpc.ClientConn) error {
	resp, err := askReflection(ctx, conn,
		&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	for _, s := range resp.GetListServicesResponse().GetService() {
		fmt.Println(s.GetName())
	}
	return err
}

func callMethod(ctx context.Context, conn *grpc.ClientConn, method, data string) error {
	service, name, _ := strings.Cut(method, "/")
	md, err := describe(ctx, conn, service, name)
	if err != nil {
		return err
	}
	req := dynamicpb.NewMessage(md.Input())
	if err := protojson.Unmarshal([]byte(data), req); err != nil {
		return err
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/"+method)
	if err != nil {
		return err
	}
	if err := errors.Join(stream.SendMsg(req), stream.CloseSend()); err != nil {
		return err
	}
	for {
		resp := dynamicpb.NewMessage(md.Output())
		if err := stream.RecvMsg(resp); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		fmt.Println(protojson.Format(resp))
	}
}

// describe requests a method's descriptor from the server.
func describe(ctx context.Context, conn *grpc.ClientConn, service, method string) (protoreflect.MethodDescriptor,
	error) {
	resp, err := askReflection(ctx, conn, &reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service}})
	if err != nil {
		return nil, err
	}
	set := new(descriptorpb.FileDescriptorSet)
	for _, raw := range resp.GetFileDescriptorResponse().GetFileDescriptorProto() {
		file := new(descriptorpb.FileDescriptorProto)
		if err := proto.Unmarshal(raw, file); err != nil {
			return nil, err
		}
		set.File = append(set.File, file)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, err
	}
	found, err := files.FindDescriptorByName(protoreflect.FullName(service + "." + method))
	if err != nil {
		return nil, err
	}
	md, ok := found.(protoreflect.MethodDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s is no method", found.FullName())
	}
	return md, nil
}
