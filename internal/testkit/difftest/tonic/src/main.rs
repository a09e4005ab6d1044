//! A capability in all dialects by tonic and prost that tells, line by line, what it has decoded and run;
//! and a client that makes the calls that it reads.
//!
//! usage: difftest serve | difftest call ADDRESS

mod calls;
mod capability;
mod legacy;
mod tell;

/// What tonic-prost-build makes of proto/selu.
pub mod selu {
    pub mod capability {
        tonic::include_proto!("selu.capability");
        pub mod v1 {
            tonic::include_proto!("selu.capability.v1");
        }
    }
}

/// The messages of the legacy dialect.
pub mod capgate {
    pub mod selu {
        pub mod legacy {
            tonic::include_proto!("capgate.selu.legacy");
        }
    }
}

use std::net::SocketAddr;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::codec::CompressionEncoding::Gzip;
use tonic::transport::Server;

type Failure = Box<dyn std::error::Error>;

async fn serve(reserved: bool) -> Result<u16, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0".parse::<SocketAddr>()?).await?;
    let port = listener.local_addr()?.port();
    use capgate_services::*;
    let server = Server::builder()
        .add_service(LiveServer::new(capability::Live { reserved }).accept_compressed(Gzip))
        .add_service(DocServer::new(capability::Doc { reserved }).accept_compressed(Gzip))
        .add_service(LegacyServer::new(legacy::Legacy { reserved }).accept_compressed(Gzip));
    tokio::task::spawn_local(async move {
        if let Err(err) = server.serve_with_incoming(TcpListenerStream::new(listener)).await {
            eprintln!("{err}");
        }
    });
    Ok(port)
}

mod capgate_services {
    pub use crate::selu::capability::capability_server::CapabilityServer as DocServer;
    pub use crate::selu::capability::v1::capability_server::CapabilityServer as LiveServer;
    pub use crate::selu::capability::v1::capability_service_server::CapabilityServiceServer as LegacyServer;
}

async fn run() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().collect();
    if let [_, verb, addr] = &args[..] {
        if verb == "call" {
            return calls::make(addr).await;
        }
    }
    let ports = [serve(false).await?, serve(true).await?];
    println!("{}", serde_json::json!({"ports": ports, "runtime": "prost"}));
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?; // it ends with its parent
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    tokio::task::LocalSet::new().run_until(run()).await
}
