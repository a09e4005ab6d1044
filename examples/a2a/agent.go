package a2a

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	a2apb "github.com/capgate/capgate/proto/lf/a2a/v1"
)

// maxTasks is the number of tasks that an agent keeps. The oldest one is deleted first.
const maxTasks = 1000

// Agent counts words. It is safe for concurrent use.
type Agent struct {
	a2apb.UnimplementedA2AServiceServer

	mu    sync.Mutex
	tasks map[string]*a2apb.Task // immutable
	order []string
}

// New returns an Agent.
func New() *Agent { return &Agent{tasks: map[string]*a2apb.Task{}} }

// SendMessage returns a completed task.
func (a *Agent) SendMessage(_ context.Context, req *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	task, err := a.begin(req)
	if err != nil {
		return nil, err
	}
	task = a.end(task, req)
	return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{Task: task}}, nil
}

// SendStreamingMessage sends the new task and each change of its status.
func (a *Agent) SendStreamingMessage(req *a2apb.SendMessageRequest,
	stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	task, err := a.begin(req)
	if err != nil {
		return err
	}
	if err := stream.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: task}}); err != nil {
		return err
	}
	return stream.Send(update(a.end(task, req)))
}

// GetTask implements a2apb.A2AServiceServer.
func (a *Agent) GetTask(_ context.Context, req *a2apb.GetTaskRequest) (*a2apb.Task, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if task := a.tasks[req.GetId()]; task != nil {
		return task, nil
	}
	return nil, status.Error(codes.NotFound, "no such task")
}

// begin creates a task for a message.
func (a *Agent) begin(req *a2apb.SendMessageRequest) (*a2apb.Task, error) {
	if req.GetMessage().GetMessageId() == "" {
		return nil, status.Error(codes.InvalidArgument, "message.message_id is required")
	}
	task := &a2apb.Task{Id: rand.Text(), ContextId: req.GetMessage().GetContextId(),
		Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_WORKING}}
	if task.GetContextId() == "" {
		task.ContextId = rand.Text()
	}
	a.keep(task)
	return task, nil
}

// end completes a task with the number of words.
func (a *Agent) end(task *a2apb.Task, req *a2apb.SendMessageRequest) *a2apb.Task {
	words := 0
	for _, part := range req.GetMessage().GetParts() {
		words += len(strings.Fields(part.GetText()))
	}
	ended := proto.CloneOf(task)
	ended.Status = &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_COMPLETED, Message: &a2apb.Message{
		MessageId: rand.Text(), ContextId: task.GetContextId(), TaskId: task.GetId(), Role: a2apb.Role_ROLE_AGENT,
		Parts: []*a2apb.Part{Text(fmt.Sprintf("%d words", words))},
	}}
	a.keep(ended)
	return ended
}

func (a *Agent) keep(task *a2apb.Task) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tasks[task.GetId()] == nil {
		a.order = append(a.order, task.GetId())
	}
	a.tasks[task.GetId()] = task
	if len(a.order) > maxTasks {
		delete(a.tasks, a.order[0])
		a.order = a.order[1:]
	}
}

// update returns the event of a task's status.
func update(task *a2apb.Task) *a2apb.StreamResponse {
	return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{
		TaskId: task.GetId(), ContextId: task.GetContextId(), Status: task.GetStatus()}}}
}

// Text returns a part of a message.
func Text(text string) *a2apb.Part { return &a2apb.Part{Content: &a2apb.Part_Text{Text: text}} }

// Ask returns the request of a user's message.
func Ask(text string) *a2apb.SendMessageRequest {
	return &a2apb.SendMessageRequest{Message: &a2apb.Message{MessageId: rand.Text(), Role: a2apb.Role_ROLE_USER,
		Parts: []*a2apb.Part{Text(text)}}}
}
