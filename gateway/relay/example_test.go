package relay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/capgate/capgate/gateway/relay"
)

// greeter answers every call itself.
type greeter struct{ *forwarder }

func (greeter) Headers(s *relay.Stream) { s.Reply([]byte("hello, " + s.RequestValue().(string))) }

// A call that begins in the process passes the Handler as any other does. The front door passes what it has learned of
// the caller as a value.
func ExampleRelay_Open() {
	r := relay.New(relay.Config{}, greeter{&forwarder{}}, http.NotFoundHandler())
	defer r.Close()
	call, err := r.Open(context.Background(), relay.Request{Path: "/greet.v1.Greeter/Greet", Value: "Ada"})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = call.Send(relay.Message{Data: []byte("a serialized request")}) // on io.EOF, Recv and Status have the reason
	call.CloseSend()
	var buf []byte // reused for each message
	for {
		m, err := call.Recv(buf)
		if errors.Is(err, io.EOF) {
			break
		}
		fmt.Println(string(m.Data))
		buf = m.Data
	}
	fmt.Println("status", call.Status().Code)
	// Output:
	// hello, Ada
	// status 0
}

// Unary makes a call of one message in each direction. Both buffers can be reused.
func ExampleRelay_Unary() {
	r := relay.New(relay.Config{}, greeter{&forwarder{}}, http.NotFoundHandler())
	defer r.Close()
	msg := make([]byte, relay.Headroom, 512)
	msg = append(msg, "a serialized request"...)
	var response relay.Response
	r.Unary(context.Background(), relay.Request{Path: "/greet.v1.Greeter/Greet", Value: "Ada"}, msg, &response)
	fmt.Println(response.Status.Code, string(response.Message))
	// Output: 0 hello, Ada
}

// server answers every call by code in the process.
type server struct{ *forwarder }

func (server) Headers(s *relay.Stream) {
	s.Serve(func(s *relay.ServerStream) relay.Status {
		for {
			m, err := s.Recv(nil)
			if errors.Is(err, io.EOF) {
				return relay.Status{}
			}
			if err == nil {
				err = s.Send(m)
			}
			if err != nil {
				return relay.Status{Code: 1, Message: err.Error()} // the caller has gone
			}
		}
	})
}

// A served call has whole messages. Here the caller is the process itself.
func ExampleStream_Serve() {
	r := relay.New(relay.Config{}, server{&forwarder{}}, http.NotFoundHandler())
	defer r.Close()
	msg := append(make([]byte, relay.Headroom), "hello"...)
	var response relay.Response
	r.Unary(context.Background(), relay.Request{Path: "/echo.v1.Echo/Echo"}, msg, &response)
	fmt.Println(response.Status.Code, string(response.Message))
	// Output: 0 hello
}
