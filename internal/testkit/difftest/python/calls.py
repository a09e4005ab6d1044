"""Makes the calls that standard input has, one JSON object a line, and tells how each ended.

usage: calls.py DESCRIPTORS ADDRESS, the first a FileDescriptorSet of proto/selu
"""

import base64
import json
import sys

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICES = {"live": "selu.capability.v1.Capability", "doc": "selu.capability.Capability", "legacy": "selu.capability.v1.CapabilityService"}
PACKAGES = {"live": "selu.capability.v1", "doc": "selu.capability", "legacy": "capgate.selu.legacy"}


def request(message, call):
    if call["dialect"] == "legacy":
        made = message("InvokeRequest")(tool_name=call["tool"], parameters=base64.b64decode(call["args"]).decode(), context=call["context"])
    else:
        made = message("InvokeRequest")(
            tool_name=call["tool"], args_json=base64.b64decode(call["args"]), config_json=base64.b64decode(call["config"]),
            session_id=call["session"], capability_id=call["capability"], thread_id=call["thread"],
        )
    made.MergeFromString(base64.b64decode(call["unknown"]))  # fields that a newer proto has
    return made


def make(channel, pool, call):
    def message(name):
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(PACKAGES[call["dialect"]] + "." + name))

    options = {
        "metadata": list(call["metadata"].items()),
        "compression": grpc.Compression.Gzip if call["gzip"] else grpc.Compression.NoCompression,
    }
    path = f"/{SERVICES[call['dialect']]}/{call['method']}"
    made = request(message, call)
    if call["method"] == "StreamInvoke":
        method = channel.unary_stream(path, type(made).SerializeToString, message("InvokeChunk").FromString)
        list(method(made, **options))
    else:
        channel.unary_unary(path, type(made).SerializeToString, message("InvokeResponse").FromString)(made, **options)


def main():
    pool = descriptor_pool.DescriptorPool()
    with open(sys.argv[1], "rb") as file:
        for proto in descriptor_pb2.FileDescriptorSet.FromString(file.read()).file:
            pool.Add(proto)
    with grpc.insecure_channel(sys.argv[2]) as channel:
        for line in sys.stdin:
            ended = {"code": 0}
            try:
                make(channel, pool, json.loads(line))
            except grpc.RpcError as err:
                ended = {"code": err.code().value[0], "message": err.details()}
            print(json.dumps(ended), flush=True)


main()
