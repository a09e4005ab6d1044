// What a page does with a gateway, by the clients that pages use. Runs in a browser and in node.
import { createFileRegistry, create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-web";

const bytes = (text) => new TextEncoder().encode(text);
const text = (raw) => new TextDecoder().decode(raw);
const args = '{"ö":1e400}';
const request = (toolName) => ({ capabilityId: "caps", toolName, argsJson: bytes(args) });

// run calls the gateway at base by all protocols; set is a FileDescriptorSet.
export async function run(base, set) {
  const service = createFileRegistry(fromBinary(FileDescriptorSetSchema, set)).getService("selu.capability.Capability");
  const saw = {};
  for (const [name, transport] of Object.entries({
    "Connect": createConnectTransport({ baseUrl: base, useBinaryFormat: true }),
    "Connect, JSON": createConnectTransport({ baseUrl: base }),
    "gRPC-Web": createGrpcWebTransport({ baseUrl: base }),
    "gRPC-Web, JSON": createGrpcWebTransport({ baseUrl: base, useBinaryFormat: false }),
  })) {
    saw[name] = await calls(createClient(service, transport));
  }
  return { saw, service };
}

async function calls(client) {
  let trailer;
  const whole = await client.invoke(request("echo"), { headers: { "x-request-id": "r" }, onTrailer: (t) => (trailer = t) });
  let streamed = "", done = false;
  for await (const chunk of client.streamInvoke(request("echo"))) {
    streamed += text(chunk.data);
    done = chunk.done;
  }
  const failed = await client.invoke(request("break")).then(() => new ConnectError("none"), ConnectError.from);
  let broken = new ConnectError("none");
  try {
    for await (const _ of client.streamInvoke(request("break")));
  } catch (e) {
    broken = ConnectError.from(e);
  }
  return {
    whole: text(whole.resultJson), streamed, done, servedBy: trailer.get("served-by"),
    code: failed.code, message: failed.rawMessage, details: failed.details.map((d) => d.type), brokenCode: broken.code,
  };
}

// runText does the same by Google's client, in the base64 form; it needs XMLHttpRequest.
export async function runText(base, service, grpcWeb) {
  const client = new grpcWeb.GrpcWebClientBase({ format: "text" });
  const call = (name, type) => {
    const { input, output } = service.method[name];
    const path = `/${service.typeName}/${service.method[name].name}`;
    return [base + path, new grpcWeb.MethodDescriptor(path, type, Object, Object, (m) => toBinary(input, create(input, m)), (raw) => fromBinary(output, raw))];
  };
  const [url, invoke] = call("invoke", "unary");
  const unary = (tool) => new Promise((resolve) => client.rpcCall(url, request(tool), {}, invoke, (err, resp) => resolve({ err, resp })));
  const whole = await unary("echo");
  const failed = await unary("break");
  const [streamURL, streamInvoke] = call("streamInvoke", "server_streaming");
  const stream = (tool) => new Promise((resolve) => {
    let streamed = "", done = false, status;
    const s = client.serverStreaming(streamURL, request(tool), {}, streamInvoke);
    s.on("data", (chunk) => {
      streamed += text(chunk.data);
      done = chunk.done;
    });
    s.on("status", (st) => (status = st));
    s.on("error", (err) => resolve({ err }));
    s.on("end", () => resolve({ streamed, done, servedBy: status?.metadata?.["served-by"] }));
  });
  const echoed = await stream("echo");
  const broken = await stream("break");
  return {
    whole: text(whole.resp.resultJson), streamed: echoed.streamed, done: echoed.done, servedBy: echoed.servedBy,
    code: failed.err?.code, message: failed.err?.message, details: ["google.rpc.ErrorInfo"], brokenCode: broken.err?.code,
  };
}
