package selu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
)

const (
	defaultPort    = 50051
	connectTimeout = 10 * time.Second
	callTimeout    = 120 * time.Second
	readyTimeout   = 30 * time.Second
	pollInterval   = 200 * time.Millisecond
	maxMessage     = 16 << 20  // bytes
	chunkSize      = 256 << 10 // bytes of a file in one message
	attempts       = 2         // of a call that fails with an apparent connection error
	maxDownload    = 256 << 20 // bytes; this package's own limit
)

// Container describes where a capability runs.
type Container struct {
	Capability string // its id
	Session    string // "": the container is shared by all sessions
	Host       string // its address
	Port       int    // default 50051; others are for tests
}

// Client is the orchestrator's channel to a container. It is safe for concurrent use.
type Client struct {
	container Container
	conn      *grpc.ClientConn
	rpc       livepb.CapabilityClient
	repeated  atomic.Int64
}

// Dial creates a channel, which connects at its first use.
func Dial(c Container) (*Client, error) {
	if c.Port == 0 {
		c.Port = defaultPort
	}
	conn, err := c.channel()
	if err != nil {
		return nil, err
	}
	return &Client{container: c, conn: conn, rpc: livepb.NewCapabilityClient(conn)}, nil
}

func (c Container) channel() (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+net.JoinHostPort(c.Host, strconv.Itoa(c.Port)),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: connectTimeout, Backoff: backoff.Config{
			BaseDelay: pollInterval, Multiplier: 1, MaxDelay: pollInterval}}))
}

// Close closes the channel.
func (c *Client) Close() error { return c.conn.Close() }

// Repeated returns the number of repeated calls.
func (c *Client) Repeated() int { return int(c.repeated.Load()) }

// WaitReady polls until the capability is ready, as the orchestrator does before it uses a container.
func (c *Client) WaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for last := error(nil); ; {
		health, err := c.container.healthcheck(ctx)
		switch {
		case err == nil && health.GetReady():
			return nil
		case err == nil:
			last = errors.New(health.GetMessage())
		case ctx.Err() == nil || last == nil:
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("capability %s is not ready within %v: %w", c.container.Capability, readyTimeout, last)
		}
	}
}

// healthcheck uses its own channel.
func (c Container) healthcheck(ctx context.Context) (*livepb.HealthResponse, error) {
	conn, err := c.channel()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return livepb.NewCapabilityClient(conn).Healthcheck(ctx, &livepb.HealthRequest{})
}

// try makes a call, and repeats it once if its error seems to be a connection error. It sends no deadline to the
// capability: when the time is over, it cancels the call.
func (c *Client) try(ctx context.Context, call func(context.Context) error) error {
	for left := attempts; ; {
		attempt, cancel := context.WithCancelCause(ctx)
		timer := time.AfterFunc(callTimeout, func() { cancel(errTime) })
		err := call(attempt)
		timer.Stop()
		late := errors.Is(context.Cause(attempt), errTime)
		cancel(nil)
		if late && status.Code(err) == codes.Canceled {
			return errTime
		}
		if left--; left == 0 || !seemsUnsent(err) || ctx.Err() != nil {
			return err
		}
		c.repeated.Add(1)
	}
}

var errTime = fmt.Errorf("the call took longer than %v", callTimeout)

// seemsUnsent decides, as the orchestrator does, whether a call may be repeated.
func seemsUnsent(err error) bool {
	if err == nil {
		return false
	}
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "connect") || strings.Contains(text, "transport error")
}

// Start runs a program in place of an image, with the environment that the orchestrator gives to a container and the
// variables that an image would set. It ends with ctx.
func Start(ctx context.Context, c Container, image []string, program string, args ...string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(append([]string{}, image...), "SELU_CAPABILITY_ID="+c.Capability)
	if c.Session != "" {
		cmd.Env = append(cmd.Env, "SELU_SESSION_ID="+c.Session)
	}
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second // Docker's default
	return cmd, cmd.Start()
}
