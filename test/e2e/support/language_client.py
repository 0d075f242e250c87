# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A scripted client of the Language Server Protocol, for tests: one server over standard input and output."""
import json
import queue
import subprocess
import threading


class Client:
    def __init__(self, command, timeout=60):
        self.timeout = timeout
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.messages = queue.Queue()
        self.last_id = 0
        self.unread = []  # params of textDocument/publishDiagnostics that arrived while a reply was awaited
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        stream = self.process.stdout
        while True:
            length = None
            while True:
                line = stream.readline()
                if not line:
                    self.messages.put(None)
                    return
                if line == b"\r\n":
                    break
                name, value = line.split(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            self.messages.put(json.loads(stream.read(length)))

    def raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def body(self, data):
        self.raw(b"Content-Length: %d\r\n\r\n" % len(data) + data)

    def send(self, message):
        self.body(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode())

    def receive(self):
        message = self.messages.get(timeout=self.timeout)
        if message is None:
            raise EOFError("the server ended")
        return message

    def reply(self, number):
        """The response to request `number`. Diagnostics that arrive before it are kept."""
        while True:
            message = self.receive()
            if message.get("method") == "textDocument/publishDiagnostics":
                self.unread.append(message["params"])
            if "method" not in message and message.get("id") == number:
                return message

    def request(self, method, params=None):
        self.last_id += 1
        message = {"id": self.last_id, "method": method}
        self.send(message if params is None else {**message, "params": params})
        return self.reply(self.last_id)

    def notify(self, method, params=None):
        self.send({"method": method} if params is None else {"method": method, "params": params})

    def initialize(self):
        result = self.request("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        self.notify("initialized", {})
        return result["result"]

    def open(self, uri, text, language="json"):
        self.notify("textDocument/didOpen",
                    {"textDocument": {"uri": uri, "languageId": language, "version": 1, "text": text}})

    def change(self, uri, version, text):
        self.notify("textDocument/didChange",
                    {"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": text}]})

    def diagnostics(self, uri, version=None):
        """The next diagnostics published for `uri`, of `version` where it is given."""
        while True:
            if self.unread:
                params = self.unread.pop(0)
            else:
                message = self.receive()
                if message.get("method") != "textDocument/publishDiagnostics":
                    continue
                params = message["params"]
            if params["uri"] == uri and version in (None, params.get("version")):
                return params["diagnostics"]

    def at(self, method, uri, line, character):
        """The result of a request about a place: hover, completion."""
        reply = self.request(method, {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}})
        return reply["result"]

    def leave(self):
        """shutdown, exit; the exit status."""
        self.request("shutdown")
        self.notify("exit")
        return self.process.wait(self.timeout)
