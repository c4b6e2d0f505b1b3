"""A `gate serve` with a time limit, whose stderr is kept."""
import contextlib
import http.client
import json
import os
import signal
import subprocess
import threading
import time

import processes

LISTENING_S = 60


class Served:
    def __init__(self, gate, backend, model, limit, *, flags=(), environment=None):
        command = [gate, "serve", "--port", "0", "--backend", backend]
        command += ["--synthetic", model] if model else []
        self.limit, self.begun = limit, time.monotonic()
        self.end = self.begun + limit
        self.stages, self.port, self.name, self.ready_ms = {}, None, None, None
        self.lines, self.told = [], threading.Event()
        environment = {**os.environ, **(environment or {})}
        self.process = processes.start([*command, *flags], stderr=subprocess.PIPE, env=environment)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            self.note(line)
        self.told.set()

    def note(self, line):
        words = line.split()
        if "listening on http://" in line:
            address, _, self.name = line.split("http://")[1].strip().partition("  model ")
            self.port = int(address.rpartition(":")[2])
            self.ready_ms = (time.monotonic() - self.begun) * 1e3
            self.told.set()
        elif len(words) == 3 and words[2] == "ms" and not self.port:
            self.stages[words[0]] = float(words[1])

    def wait_listening(self):
        limit = min(LISTENING_S, self.limit)
        assert self.told.wait(limit), f"gate serve did not listen within {limit:.0f} s"
        assert self.port, "gate serve ended before it listened"

    def stop(self):
        processes.end(self.process, signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        processes.kill(self.process)
        self.reader.join(2)

    def last_words(self):
        late = f" after the {self.limit:.0f} s it had" if time.monotonic() >= self.end else ""
        return f"{late}; gate serve ended with {self.process.returncode}"

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=max(1.0, self.end - time.monotonic()))

    def post(self, body):
        connection = self.connection()
        connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        connection.close()
        assert response.status == 200, text[:500]
        return json.loads(text)

    def cancelled(self, body):
        """Reads a little of a stream and goes away."""
        connection = self.connection()
        body = {**body, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200
        response.read(200)
        response.close()
        connection.close()

    def find(self, name, label=""):
        """A figure of /metrics, or None where there is none of that name and label."""
        connection = self.connection()
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        for line in text.splitlines():
            if line.partition(" ")[0].partition("{")[0] == name and label in line:
                return float(line.rpartition(" ")[2])
        return None

    def metric(self, name, label=""):
        value = self.find(name, label)
        assert value is not None, f"/metrics has no {name} {label}"
        return value

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def served(*arguments, **named):
    server = Served(*arguments, **named)
    watch = threading.Timer(server.limit, processes.end, [server.process])
    watch.start()
    try:
        server.wait_listening()
        yield server
    except Exception as error:
        server.stop()
        said = f"{type(error).__name__}: {error}{server.last_words()}"
        raise processes.Failed(said, "".join(server.lines)) from error
    finally:
        watch.cancel()
        server.stop()
