package restjson_test

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/capgate/capgate/internal/lib/restjson"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// TestMarshal: REQUIRED fields and lists are always present, also those of messages in lists; other empty fields and
// OPTIONAL lists are absent.
func TestMarshal(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]proto.Message{
		`{"approvals":[]}`: &capgatepb.ListApprovalsResponse{},
		`{"id":"","destination":"","type":"","tenant":"","attempts":0,"error":""}`: &capgatepb.DeadLetter{},
		`{"approvals":[{"id":"a","state":"pending","answers":[{"by":"ann"}],"groups":["x","y"],"escalate_groups":[],` +
			`"may_answer":true,"max_validity":"60s"}],"next_page_token":"n"}`: &capgatepb.ListApprovalsResponse{
			NextPageToken: "n", Approvals: []*capgatepb.Approval{{Id: "a", State: "pending", MayAnswer: true,
				Groups: []string{"x", "y"}, Answers: []*capgatepb.ApprovalAnswer{{By: "ann"}},
				MaxValidity: &durationpb.Duration{Seconds: 60}}}},
		`{"name":"","user":"","tenant":"","roles":[],"groups":[],"via":"","issuer":"",` +
			`"insecure":false}`: &capgatepb.GetMeResponse{},
		`{"name":"","user":"","tenant":"","roles":[],"all_roles":[],"tenants":[{"tenant":"a","roles":[]}],` +
			`"groups":[],"via":"","issuer":"","insecure":false}`: &capgatepb.GetMeResponse{
			AllRoles: &structpb.ListValue{}, Tenants: []*capgatepb.TenantRoles{{Tenant: "a"}}},
		`{"id":"a<b\"","answers":[],"groups":[],"escalate_groups":[]}`: &capgatepb.Approval{Id: `a<b"`},
		`{"a":[],"b":{"c":1}}`: &structpb.Struct{Fields: map[string]*structpb.Value{
			"a": structpb.NewListValue(&structpb.ListValue{}),
			"b": structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
				"c": structpb.NewNumberValue(1)}})}},
	} {
		if got, err := restjson.Marshal(m); err != nil || string(got) != want {
			t.Errorf("got %s, want %s: %v", got, want, err)
		}
	}
}
