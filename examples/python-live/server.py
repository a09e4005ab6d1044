"""A capability of the live protocol: counts the words of texts and files, and writes reports."""

import argparse
import json
import signal
import threading
import uuid
from collections import Counter, OrderedDict
from concurrent import futures

import grpc

import capability_pb2 as pb2
import capability_pb2_grpc as pb2_grpc

MAX_MESSAGE = 16 * 1024 * 1024  # bytes; the orchestrator's own limit
MAX_FILE = 8 * 1024 * 1024  # bytes
MAX_FILES = 32  # the oldest is deleted first
CHUNK = 256 * 1024  # bytes of a file in one message
STOP_SECONDS = 10  # how long calls in flight may take to end

# The answer of list_tools: this capability's manifest has tool_source: dynamic.
TEXT = {"type": "string", "description": "The text.", "examples": ["to be or not to be"]}
TOOLS = [
    {
        "name": "count_words",
        "description": "Counts how often each word is in a text. Streams one chunk per word.",
        "input_schema": {
            "type": "object",
            "properties": {"text": TEXT},
            "required": ["text"],
            "additionalProperties": False,
        },
        "recommended_policy": "allow",
    },
    {
        "name": "write_report",
        "description": "Counts the words of uploaded files, and writes a CSV file to download.",
        "input_schema": {
            "type": "object",
            "properties": {
                "attachments": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "properties": {"capability_artifact_id": {"type": "string"}},
                        "required": ["capability_artifact_id"],
                    },
                }
            },
            "required": ["attachments"],
            "additionalProperties": False,
        },
        "recommended_policy": "ask",
    },
]


class ToolError(Exception):
    """A failure that the agent is told of; it says what to change."""


class Files:
    """Files in memory, by ids that cannot be guessed."""

    def __init__(self):
        self._lock = threading.Lock()
        self._files = OrderedDict()

    def add(self, name, mime_type, data):
        file_id = uuid.uuid4().hex
        with self._lock:
            self._files[file_id] = (name, mime_type, data)
            while len(self._files) > MAX_FILES:
                self._files.popitem(last=False)
        return file_id

    def get(self, file_id):
        with self._lock:
            return self._files.get(file_id)


class Capability(pb2_grpc.CapabilityServicer):
    def __init__(self):
        self.files = Files()

    def Invoke(self, request, context):
        # Failures are reported in the response. A gRPC error would mean that the call broke.
        try:
            return pb2.InvokeResponse(result_json=encode(self.run(request)))
        except ToolError as failure:
            return pb2.InvokeResponse(error=str(failure))

    def StreamInvoke(self, request, context):
        try:
            result = self.run(request)
        except ToolError as failure:
            yield pb2.InvokeChunk(done=True, error=str(failure))
            return
        # A list is sent with one element per chunk, anything else in one chunk. Only the last is done.
        parts = result if isinstance(result, list) and result else [result]
        for i, part in enumerate(parts):
            yield pb2.InvokeChunk(data=encode(part), done=i == len(parts) - 1)

    def Healthcheck(self, request, context):
        return pb2.HealthResponse(ready=True)

    def UploadInputArtifact(self, request_iterator, context):
        name, mime_type, data = None, "", bytearray()
        for chunk in request_iterator:
            if name is None:  # only the first chunk describes the file
                name, mime_type = chunk.filename or "upload", chunk.mime_type or "application/octet-stream"
            data += chunk.data
            if len(data) > MAX_FILE:
                return pb2.UploadInputArtifactResponse(error=f"the file is larger than {MAX_FILE} bytes")
        if name is None:
            return pb2.UploadInputArtifactResponse(error="no chunk came; an empty file is one empty chunk")
        file_id = self.files.add(name, mime_type, bytes(data))
        return pb2.UploadInputArtifactResponse(capability_artifact_id=file_id, size_bytes=len(data))

    def DownloadOutputArtifact(self, request, context):
        file = self.files.get(request.capability_artifact_id)
        if file is None:
            yield pb2.ArtifactChunk(done=True, error="there is no such file, or no longer")
            return
        name, mime_type, data = file
        for at in range(0, max(len(data), 1), CHUNK):
            chunk = pb2.ArtifactChunk(data=data[at : at + CHUNK], done=at + CHUNK >= len(data))
            if at == 0:
                chunk.filename, chunk.mime_type = name, mime_type
            yield chunk

    def run(self, request):
        args = parse(request.args_json)
        match request.tool_name:
            case "list_tools":
                return TOOLS
            case "count_words":
                return count_words(args.get("text"))
            case "write_report":
                return self.write_report(args.get("attachments"))
        raise ToolError(f"unknown tool {request.tool_name!r}; list_tools lists those that there are")

    def write_report(self, attachments):
        if not isinstance(attachments, list) or not attachments:
            raise ToolError("attachments must be a list of uploaded files")
        rows = ["file,words"]
        for attachment in attachments:
            file = self.files.get(attachment.get("capability_artifact_id")) if isinstance(attachment, dict) else None
            if file is None:
                raise ToolError(f"there is no file {attachment!r}, or no longer; upload it again")
            name, _, data = file
            rows.append(f'"{name.replace(chr(34), chr(34) * 2)}",{len(data.decode(errors="replace").split())}')
        file_id = self.files.add("words.csv", "text/csv", "\n".join(rows).encode() + b"\n")
        return {"artifact": {"capability_artifact_id": file_id, "filename": "words.csv", "mime_type": "text/csv"}}


def count_words(text):
    if not isinstance(text, str):
        raise ToolError("text must be a string")
    return [{"word": word, "count": count} for word, count in sorted(Counter(text.lower().split()).items())]


def parse(args_json):
    try:
        args = json.loads(args_json or b"{}")
    except (ValueError, RecursionError) as failure:
        raise ToolError(f"the arguments are not JSON: {failure}") from failure
    if not isinstance(args, dict):
        raise ToolError("the arguments must be a JSON object")
    return args


def encode(value):
    return json.dumps(value, ensure_ascii=False).encode()


def serve(address):
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=16),
        options=[("grpc.max_receive_message_length", MAX_MESSAGE)],
    )
    pb2_grpc.add_CapabilityServicer_to_server(Capability(), server)
    port = server.add_insecure_port(address)
    server.start()
    signal.signal(signal.SIGTERM, lambda *_: server.stop(STOP_SECONDS))
    print(f"serving on port {port}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--listen", default="[::]:50051", help="address to serve gRPC on")
    serve(arguments.parse_args().listen)
