//! The legacy dialect.

use crate::capgate::selu::legacy as pb;
use crate::selu::capability::v1::capability_service_server::CapabilityService;
use crate::tell::{self, Invocation};
use tonic::{Request, Response, Status};

pub struct Legacy {
    pub reserved: bool,
}

#[tonic::async_trait]
impl CapabilityService for Legacy {
    async fn invoke(&self, r: Request<pb::InvokeRequest>) -> Result<Response<pb::InvokeResponse>, Status> {
        let m = r.get_ref();
        let context = |key: &str| m.context.get(key).map_or("", String::as_str);
        let invocation = Invocation {
            tool: &m.tool_name, args: m.parameters.as_bytes(), config: context("config_json").as_bytes(),
            session: context("session_id"), capability: context("capability_id"), thread: context("thread_id"),
        };
        tell::ran(r.metadata(), self.reserved, "/selu.capability.v1.CapabilityService/Invoke", invocation);
        Ok(Response::new(pb::InvokeResponse { result: r#"{"ran":true}"#.into(), success: true, ..Default::default() }))
    }

    async fn health_check(&self, _: Request<pb::HealthCheckRequest>) -> Result<Response<pb::HealthCheckResponse>, Status> {
        Ok(Response::new(pb::HealthCheckResponse { healthy: true }))
    }
}
