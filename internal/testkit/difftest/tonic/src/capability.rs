//! The doc and live dialects. Their messages have the same names, in two packages.

use crate::tell::{self, Invocation};
use tokio_stream::{iter, Iter};
use tonic::{Request, Response, Status, Streaming};

pub struct Live {
    pub reserved: bool,
}

pub struct Doc {
    pub reserved: bool,
}

const OK: &[u8] = br#"{"ran":true}"#;

macro_rules! capability {
    ($server:ident, $package:path, $service:literal, $artifact:ident) => {
        const _: () = {
            use $package as pb;
            type Stream<T> = Iter<std::vec::IntoIter<Result<T, Status>>>;

            fn invocation(m: &pb::InvokeRequest) -> Invocation<'_> {
                Invocation {
                    tool: &m.tool_name, args: &m.args_json, config: &m.config_json, session: &m.session_id,
                    capability: &m.capability_id, thread: &m.thread_id,
                }
            }

            #[tonic::async_trait]
            impl pb::capability_server::Capability for $server {
                async fn invoke(&self, r: Request<pb::InvokeRequest>) -> Result<Response<pb::InvokeResponse>, Status> {
                    tell::ran(r.metadata(), self.reserved, concat!("/", $service, "/Invoke"), invocation(r.get_ref()));
                    Ok(Response::new(pb::InvokeResponse { result_json: OK.to_vec(), ..Default::default() }))
                }

                type StreamInvokeStream = Stream<pb::InvokeChunk>;
                async fn stream_invoke(&self, r: Request<pb::InvokeRequest>) -> Result<Response<Self::StreamInvokeStream>, Status> {
                    tell::ran(r.metadata(), self.reserved, concat!("/", $service, "/StreamInvoke"), invocation(r.get_ref()));
                    Ok(Response::new(iter(vec![Ok(pb::InvokeChunk { data: OK.to_vec(), done: true, ..Default::default() })])))
                }

                async fn healthcheck(&self, _: Request<pb::HealthRequest>) -> Result<Response<pb::HealthResponse>, Status> {
                    Ok(Response::new(pb::HealthResponse { ready: true, ..Default::default() }))
                }

                async fn upload_input_artifact(
                    &self, r: Request<Streaming<pb::UploadInputArtifactChunk>>,
                ) -> Result<Response<pb::UploadInputArtifactResponse>, Status> {
                    let (metadata, _, mut chunks) = r.into_parts();
                    let first = chunks.message().await?.unwrap_or_default();
                    while chunks.message().await?.is_some() {}
                    tell::other(&metadata, self.reserved, concat!("/", $service, "/UploadInputArtifact"), &[]);
                    Ok(Response::new(pb::UploadInputArtifactResponse { capability_artifact_id: first.filename, ..Default::default() }))
                }

                type DownloadOutputArtifactStream = Stream<pb::ArtifactChunk>;
                async fn download_output_artifact(
                    &self, r: Request<pb::DownloadOutputArtifactRequest>,
                ) -> Result<Response<Self::DownloadOutputArtifactStream>, Status> {
                    let id = [r.get_ref().$artifact.as_str()];
                    tell::other(r.metadata(), self.reserved, concat!("/", $service, "/DownloadOutputArtifact"), &id);
                    let chunk = pb::ArtifactChunk { data: OK.to_vec(), filename: "f".into(), done: true, ..Default::default() };
                    Ok(Response::new(iter(vec![Ok(chunk)])))
                }
            }
        };
    };
}

capability!(Live, crate::selu::capability::v1, "selu.capability.v1.Capability", capability_artifact_id);
capability!(Doc, crate::selu::capability, "selu.capability.Capability", artifact_id);
