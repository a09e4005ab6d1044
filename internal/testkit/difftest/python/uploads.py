"""Makes the calls that standard input has, one JSON object a line, each of which sends much, and tells how each ended.

usage: uploads.py ADDRESS
"""

import base64
import json
import sys
import threading

import grpc


def upload(channel, call):
    message, over = bytes(call["size"]), threading.Event()

    def messages():
        for _ in range(call["stream"]):
            yield message
        over.wait()  # it never ends what it sends

    metadata = list(call["metadata"].items())
    try:
        if call["stream"]:
            channel.stream_unary(call["path"])(messages(), metadata=metadata)
        else:
            channel.unary_unary(call["path"])(message, metadata=metadata)
    except grpc.RpcError as err:
        details = dict(err.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
        return {"code": err.code().value[0], "message": err.details(), "details": base64.b64encode(details).decode()}
    finally:
        over.set()
    return {"code": 0}


def main():
    with grpc.insecure_channel(sys.argv[1], options=[("grpc.max_send_message_length", -1)]) as channel:
        for line in sys.stdin:
            print(json.dumps(upload(channel, json.loads(line))), flush=True)


main()
