#!/usr/bin/env python3
"""Memory and time of `gate load` against a server that answers each request with a few tokens at once.

    scripts/load_memory.py target/release/gate 100000 1000000

Prints a Markdown row for each number of requests: the greatest resident set of the whole process (`ru_maxrss`), the
same for each request, wall time, and CPU time of the client (`client.cpu_s`) and of all else (making requests, the
report). Options of `gate load` may follow `--`.
"""

import collections
import json
import os
import resource
import select
import socket
import subprocess
import sys
import tempfile

TOKENS = 4
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(text: str) -> bytes:
    data = f"data: {text}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


def answer() -> list[bytes]:
    """The parts of every answer, each sent by itself."""

    def event(text: str, finish: str) -> str:
        return f'{{"choices":[{{"index":0,"text":"{text}","finish_reason":{finish}}}]}}'

    parts = [chunk(event(f" w{number}", "null")) for number in range(TOKENS)]
    usage = f'{{"choices":[],"usage":{{"prompt_tokens":8,"completion_tokens":{TOKENS}}}}}'
    end = chunk(event("", '"length"')) + chunk(usage) + chunk("[DONE]") + b"0\r\n\r\n"
    return [HEAD + parts[0], *parts[1:], end]


def serve(listener: socket.socket) -> None:
    """Answers each request in parts, one a turn of the loop. A client sends its next request after the answer."""
    parts, poll, connections = answer(), select.epoll(), {}
    listener.setblocking(False)
    poll.register(listener, select.EPOLLIN)
    waiting = collections.deque()
    while True:
        for fd, _ in poll.poll(0 if waiting else -1):
            if fd == listener.fileno():
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connections[connection.fileno()] = [connection, b""]
                poll.register(connection, select.EPOLLIN)
                continue
            held = connections[fd]
            received = held[0].recv(65536)
            held[1] += received
            if not received:
                poll.unregister(fd)
                connections.pop(fd)[0].close()
            elif is_whole(held[1]):
                held[1] = b""
                waiting.append((fd, 0))
        for _ in range(len(waiting)):
            fd, number = waiting.popleft()
            if fd not in connections:
                continue
            try:
                connections[fd][0].send(parts[number])
            except OSError:
                continue
            if number + 1 < len(parts):
                waiting.append((fd, number + 1))


def is_whole(request: bytes) -> bool:
    head, _, body = request.partition(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return bool(length) and len(body) >= int(length)


def measure(gate: str, port: int, requests: int, further: list[str]) -> str:
    command = [gate, "load", "--url", f"http://127.0.0.1:{port}", "--model", "m", "--concurrency", "256"]
    command += ["--requests", str(requests), "--prompt-tokens", "8", "--output-tokens", str(TOKENS), "--seed", "1"]
    command += ["--prompt-ids", "3..384", "--format", "json", *further]
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command, stdout=out)
        _, status, used = os.wait4(child.pid, 0)
        out.seek(0)
        text = out.read()
    report = json.loads(text) if text else {}
    sent = report.get("requests", {})
    if sent.get("ok") != requests:
        sys.exit(f"exit status {os.waitstatus_to_exitcode(status)}, not {requests} sound requests: {sent}")
    peak, client = used.ru_maxrss * 1024, report["client"]
    rest = used.ru_utime + used.ru_stime - client["cpu_s"]
    return (
        f"| {requests:,} | {peak / 1e6:.0f} MB | {peak / requests:.0f} B | {client['wall_s']:.0f} s "
        f"| {client['cpu_s']:.1f} s | {rest:.1f} s |"
    )


def main() -> None:
    gate, *counts = sys.argv[1:]
    further = []
    if "--" in counts:
        place = counts.index("--")
        counts, further = counts[:place], counts[place + 1 :]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    port = listener.getsockname()[1]
    server = os.fork()
    if server == 0:
        serve(listener)
    try:
        print("| requests | peak | of each | wall | CPU of the client | other CPU |\n|---|---|---|---|---|---|")
        for requests in counts:
            print(measure(gate, port, int(requests), further), flush=True)
    finally:
        os.kill(server, 9)


if __name__ == "__main__":
    main()
