//! Makes the calls that standard input has, one JSON object a line, and tells how each ended.

use crate::capgate::selu::legacy as legacypb;
use crate::selu::capability as docpb;
use crate::selu::capability::v1 as livepb;
use crate::tell::unbase64;
use crate::Failure;
use serde_json::{json, Value};
use tokio::io::{stdin, AsyncBufReadExt, BufReader};
use tonic::codec::CompressionEncoding::Gzip;
use tonic::metadata::{MetadataKey, MetadataMap};
use tonic::transport::Channel;
use tonic::{Request, Status};

const MOST: usize = 16 << 20;

struct Call(Value);

impl Call {
    fn text(&self, name: &str) -> String {
        self.0[name].as_str().unwrap_or("").to_string()
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        unbase64(self.0[name].as_str().unwrap_or(""))
    }

    fn request<T>(&self, message: T) -> Result<Request<T>, Failure> {
        let mut request = Request::new(message);
        let metadata: &mut MetadataMap = request.metadata_mut();
        for (name, value) in self.0["metadata"].as_object().into_iter().flatten() {
            metadata.insert(MetadataKey::from_bytes(name.as_bytes())?, value.as_str().unwrap_or("").parse()?);
        }
        Ok(request)
    }
}

macro_rules! capability {
    ($name:ident, $pb:ident) => {
        async fn $name(c: &Call, channel: Channel) -> Result<Result<(), Status>, Failure> {
            let mut client = $pb::capability_client::CapabilityClient::new(channel).max_encoding_message_size(MOST).accept_compressed(Gzip);
            if c.0["gzip"] == true {
                client = client.send_compressed(Gzip);
            }
            let request = c.request($pb::InvokeRequest {
                tool_name: c.text("tool"), args_json: c.bytes("args"), config_json: c.bytes("config"), session_id: c.text("session"),
                capability_id: c.text("capability"), thread_id: c.text("thread"),
            })?;
            if c.text("method") == "Invoke" {
                return Ok(client.invoke(request).await.map(|_| ()));
            }
            match client.stream_invoke(request).await {
                Err(status) => Ok(Err(status)),
                Ok(response) => {
                    let mut chunks = response.into_inner();
                    loop {
                        match chunks.message().await {
                            Err(status) => return Ok(Err(status)),
                            Ok(None) => return Ok(Ok(())),
                            Ok(Some(_)) => {}
                        }
                    }
                }
            }
        }
    };
}

capability!(live, livepb);
capability!(doc, docpb);

async fn legacy(c: &Call, channel: Channel) -> Result<Result<(), Status>, Failure> {
    let mut client = livepb::capability_service_client::CapabilityServiceClient::new(channel).max_encoding_message_size(MOST).accept_compressed(Gzip);
    if c.0["gzip"] == true {
        client = client.send_compressed(Gzip);
    }
    let context = c.0["context"].as_object().into_iter().flatten();
    let request = c.request(legacypb::InvokeRequest {
        tool_name: c.text("tool"),
        parameters: String::from_utf8(c.bytes("args"))?,
        context: context.map(|(k, v)| (k.clone(), v.as_str().unwrap_or("").to_string())).collect(),
    })?;
    Ok(client.invoke(request).await.map(|_| ()))
}

pub async fn make(addr: &str) -> Result<(), Failure> {
    let channel = Channel::from_shared(format!("http://{addr}"))?.connect().await?;
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let call = Call(serde_json::from_str(&line)?);
        let ended = match call.text("dialect").as_str() {
            "live" => live(&call, channel.clone()).await?,
            "doc" => doc(&call, channel.clone()).await?,
            _ => legacy(&call, channel.clone()).await?,
        };
        let (code, message) = ended.map_or_else(|s| (s.code() as i32, s.message().to_string()), |_| (0, String::new()));
        println!("{}", json!({"code": code, "message": message}));
    }
    Ok(())
}
