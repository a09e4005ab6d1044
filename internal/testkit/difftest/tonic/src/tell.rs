//! What is told of a call, as one line of JSON.

use base64::engine::{general_purpose::STANDARD, Engine};
use serde_json::{json, Map, Value};
use tonic::metadata::MetadataMap;

/// What a request for a tool says.
pub struct Invocation<'a> {
    pub tool: &'a str,
    pub args: &'a [u8],
    pub config: &'a [u8],
    pub session: &'a str,
    pub capability: &'a str,
    pub thread: &'a str,
}

fn case(metadata: &MetadataMap) -> &str {
    metadata.get("x-request-id").and_then(|v| v.to_str().ok()).unwrap_or("")
}

pub fn ran(metadata: &MetadataMap, reserved: bool, method: &str, i: Invocation) {
    let args: Map<String, Value> = serde_json::from_slice(i.args).unwrap_or_default();
    let config: Map<String, Value> = serde_json::from_slice(i.config).unwrap_or_default();
    let mut artifacts = Vec::new();
    for value in args.values() {
        ids(value, &mut artifacts);
    }
    if let Some(Value::String(id)) = args.get("capability_artifact_id") {
        artifacts.push(id);
    }
    println!("{}", json!({
        "case": case(metadata), "reserved": reserved, "method": method, "tool": i.tool, "session": i.session,
        "capability": i.capability, "thread": i.thread, "args": base64(i.args), "config": base64(i.config),
        "command": args.get("command").and_then(Value::as_str), "artifacts": artifacts,
        "names": config.keys().collect::<Vec<_>>(),
    }));
}

/// Tells of a call that is none of a tool.
pub fn other(metadata: &MetadataMap, reserved: bool, method: &str, artifacts: &[&str]) {
    println!("{}", json!({"case": case(metadata), "reserved": reserved, "method": method, "artifacts": artifacts}));
}

/// The artifacts that JSON names, wherever.
fn ids<'a>(value: &'a Value, found: &mut Vec<&'a String>) {
    match value {
        Value::Array(all) => all.iter().for_each(|v| ids(v, found)),
        Value::Object(all) => {
            if let Some(Value::String(id)) = all.get("capability_artifact_id") {
                found.push(id);
            }
            all.values().for_each(|v| ids(v, found));
        }
        _ => {}
    }
}

pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The reverse; nothing of what is not base64.
pub fn unbase64(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap_or_default()
}
