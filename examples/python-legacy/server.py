"""A capability of the older protocol: what the weather is somewhere, in a few lines."""

import argparse
import json
import signal
from concurrent import futures

import grpc

import capability_pb2 as pb2
import capability_pb2_grpc as pb2_grpc

MAX_MESSAGE = 16 * 1024 * 1024  # bytes; the orchestrator's own limit
STOP_SECONDS = 10  # how long calls in flight may take to end

WEATHER = {
    "berlin": {"temperature": 22, "conditions": "sunny"},
    "lima": {"temperature": 18, "conditions": "foggy"},
    "oslo": {"temperature": 9, "conditions": "rainy"},
}


class ToolError(Exception):
    """A failure that the agent is told of; it says what to change."""


def weather_lookup(params):
    location = params.get("location")
    if not isinstance(location, str):
        raise ToolError("location must be a string, such as Berlin")
    found = WEATHER.get(location.strip().lower())
    if found is None:
        raise ToolError(f"unknown location {location!r}; there are Berlin, Lima and Oslo")
    return found


TOOLS = {"weather_lookup": weather_lookup}


class CapabilityServicer(pb2_grpc.CapabilityServiceServicer):
    def Invoke(self, request, context):
        # Failures are reported in the response. A gRPC error would mean that the call broke.
        try:
            tool = TOOLS.get(request.tool_name)
            if tool is None:
                raise ToolError(f"Unknown tool: {request.tool_name}")
            return pb2.InvokeResponse(result=json.dumps(tool(parse(request.parameters))), success=True)
        except ToolError as failure:
            return pb2.InvokeResponse(success=False, error=str(failure))

    def HealthCheck(self, request, context):
        return pb2.HealthCheckResponse(healthy=True)


def parse(parameters):
    try:
        params = json.loads(parameters or "{}")
    except (ValueError, RecursionError) as failure:
        raise ToolError(f"the parameters are not JSON: {failure}") from failure
    if not isinstance(params, dict):
        raise ToolError("the parameters must be a JSON object")
    return params


def serve(address):
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=8),
        options=[("grpc.max_receive_message_length", MAX_MESSAGE)],
    )
    pb2_grpc.add_CapabilityServiceServicer_to_server(CapabilityServicer(), server)
    port = server.add_insecure_port(address)
    server.start()
    signal.signal(signal.SIGTERM, lambda *_: server.stop(STOP_SECONDS))
    print(f"serving on port {port}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--listen", default="[::]:50051", help="address to serve gRPC on")
    serve(arguments.parse_args().listen)
