"""A capability in all dialects that tells, line by line, what it has decoded and run.

usage: backend.py DESCRIPTORS, a FileDescriptorSet of proto/selu
"""

import base64
import json
import sys
import threading
from concurrent import futures

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal import api_implementation

LIVE, DOC, LEGACY = "selu.capability.v1", "selu.capability", "capgate.selu.legacy"
printing = threading.Lock()


def load(path):
    pool = descriptor_pool.DescriptorPool()
    with open(path, "rb") as file:
        for proto in descriptor_pb2.FileDescriptorSet.FromString(file.read()).file:
            pool.Add(proto)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def ids(value):
    """The artifacts that JSON names, wherever."""
    if isinstance(value, dict):
        here = value.get("capability_artifact_id")
        return ([here] if isinstance(here, str) else []) + [i for v in value.values() for i in ids(v)]
    if isinstance(value, list):
        return [i for v in value for i in ids(v)]
    return []


def read_json(data):
    """What json.loads makes of bytes or a text."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def tell(context, reserved, **said):
    metadata = dict(context.invocation_metadata())
    with printing:
        print(json.dumps({"case": metadata.get("x-request-id", ""), "reserved": reserved, **said}), flush=True)


def ran(request, context, reserved, method):
    """Tells of a call of a tool in the doc or live dialect."""
    args = read_json(request.args_json)
    command = args.get("command")
    tell(
        context, reserved, method=method, tool=request.tool_name, session=request.session_id,
        capability=request.capability_id, thread=request.thread_id,
        args=base64.b64encode(request.args_json).decode(), config=base64.b64encode(request.config_json).decode(),
        command=command if isinstance(command, str) else None, artifacts=ids(args), names=list(read_json(request.config_json)),
    )


def capability(load, package, reserved):
    service = package + ".Capability"
    message = lambda name: load(package + "." + name)  # noqa: E731

    def invoke(request, context):
        ran(request, context, reserved, f"/{service}/Invoke")
        return message("InvokeResponse")(result_json=b'{"ran":true}')

    def stream(request, context):
        ran(request, context, reserved, f"/{service}/StreamInvoke")
        yield message("InvokeChunk")(data=b'{"ran":true}', done=True)

    def upload(requests, context):
        name = [r.filename for r in requests][0]
        tell(context, reserved, method=f"/{service}/UploadInputArtifact")
        return message("UploadInputArtifactResponse")(capability_artifact_id=name)

    def download(request, context):
        field = request.DESCRIPTOR.fields_by_number[1].name
        tell(context, reserved, method=f"/{service}/DownloadOutputArtifact", artifacts=[getattr(request, field)])
        yield message("ArtifactChunk")(data=b"content", filename="f", done=True)

    def health(request, context):
        return message("HealthResponse")(ready=True)

    def handler(make, do, request, answer):
        return make(do, message(request).FromString, message(answer).SerializeToString)

    return grpc.method_handlers_generic_handler(service, {
        "Invoke": handler(grpc.unary_unary_rpc_method_handler, invoke, "InvokeRequest", "InvokeResponse"),
        "StreamInvoke": handler(grpc.unary_stream_rpc_method_handler, stream, "InvokeRequest", "InvokeChunk"),
        "UploadInputArtifact": handler(grpc.stream_unary_rpc_method_handler, upload, "UploadInputArtifactChunk", "UploadInputArtifactResponse"),
        "DownloadOutputArtifact": handler(grpc.unary_stream_rpc_method_handler, download, "DownloadOutputArtifactRequest", "ArtifactChunk"),
        "Healthcheck": handler(grpc.unary_unary_rpc_method_handler, health, "HealthRequest", "HealthResponse"),
    })


def legacy(load, reserved):
    message = lambda name: load(LEGACY + "." + name)  # noqa: E731

    def invoke(request, context):
        args = read_json(request.parameters)
        command = args.get("command")
        config = request.context.get("config_json", "")
        tell(
            context, reserved, method="/selu.capability.v1.CapabilityService/Invoke", tool=request.tool_name,
            session=request.context.get("session_id", ""), capability=request.context.get("capability_id", ""),
            thread=request.context.get("thread_id", ""),
            args=base64.b64encode(request.parameters.encode()).decode(), config=base64.b64encode(config.encode()).decode(),
            command=command if isinstance(command, str) else None, artifacts=ids(args), names=list(read_json(config)),
        )
        return message("InvokeResponse")(result='{"ran":true}', success=True)

    def health(request, context):
        return message("HealthCheckResponse")(healthy=True)

    return grpc.method_handlers_generic_handler("selu.capability.v1.CapabilityService", {
        "Invoke": grpc.unary_unary_rpc_method_handler(invoke, message("InvokeRequest").FromString, message("InvokeResponse").SerializeToString),
        "HealthCheck": grpc.unary_unary_rpc_method_handler(health, message("HealthCheckRequest").FromString, message("HealthCheckResponse").SerializeToString),
    })


def serve(load, reserved):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    server.add_generic_rpc_handlers((capability(load, LIVE, reserved), capability(load, DOC, reserved), legacy(load, reserved)))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def main():
    messages = load(sys.argv[1])
    servers = [serve(messages, False), serve(messages, True)]
    print(json.dumps({"ports": [port for _, port in servers], "runtime": api_implementation.Type()}), flush=True)
    sys.stdin.read()  # it ends with its parent


main()
