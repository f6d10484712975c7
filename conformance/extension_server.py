#!/usr/bin/env python3
"""A modern MCP server with the fixtures that the conformance suite's scenarios of extensions ask for: tasks and skills.

  extension_server.py --http PORT                  http://127.0.0.1:PORT/mcp; 0 takes a free port
  extension_server.py --http PORT --skills b       without tasks, and with other skills

In the standard library alone, 2026-07-28 only.
"""
import argparse
import hashlib
import json
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

P = "io.modelcontextprotocol/"
TASKS, SKILLS = P + "tasks", P + "skills"


class RpcError(Exception):
    def __init__(self, code, message, data=None, status=200):
        super().__init__(message)
        self.code, self.message, self.data, self.status = code, message, data, status


def missing(extension):
    return RpcError(-32021, "Missing required client capability",
                    {"requiredCapabilities": {"extensions": {extension: {}}}}, 400)


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def form(message, **properties):
    schema = {"type": "object", "properties": properties}
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Task:
    """One task; its work runs in a thread."""
    all = {}

    def __init__(self, work):
        self.id, self.created, self.updated = uuid.uuid4().hex, now(), now()
        self.status, self.more, self.open, self.answers = "working", {}, {}, {}
        self.changed = threading.Condition()
        Task.all[self.id] = self
        threading.Thread(target=self.run, args=(work,), daemon=True).start()

    def run(self, work):
        try:
            self.settle("completed", {"result": work(self)})
        except RpcError as error:
            self.settle("failed", {"error": {"code": error.code, "message": error.message}})
        except InterruptedError:
            pass

    def settle(self, status, more):
        with self.changed:
            if self.status not in ("completed", "failed", "cancelled"):
                self.status, self.more, self.open, self.updated = status, more, {}, now()
            self.changed.notify_all()

    def sleep(self, seconds):
        end = time.monotonic() + seconds
        with self.changed:
            while self.status != "cancelled" and time.monotonic() < end:
                self.changed.wait(end - time.monotonic())
            if self.status == "cancelled":
                raise InterruptedError

    def ask(self, requests):
        with self.changed:
            self.open, self.status = dict(requests), "input_required"
            while self.open and self.status != "cancelled":
                self.changed.wait()
            if self.status == "cancelled":
                raise InterruptedError
            self.status = "working"
            return self.answers

    def answer(self, responses):
        with self.changed:
            for key, response in responses.items():
                if self.open.pop(key, None) is not None:
                    self.answers[key] = response
            self.changed.notify_all()

    def shown(self, **more):
        with self.changed:
            task = {"taskId": self.id, "status": self.status, "createdAt": self.created, "lastUpdatedAt": self.updated,
                    "ttlMs": 600000, "pollIntervalMs": 100}
            if self.status == "input_required":
                task["inputRequests"] = self.open
            return {**task, **self.more, **more}


def slow_compute(arguments):
    seconds = arguments.get("seconds", 0)

    def work(task):
        task.sleep(seconds)
        return text("computed %s" % arguments.get("label", ""))
    return work


def failing_job(_):
    def work(task):
        task.sleep(0.3)
        return text("the job failed", isError=True)
    return work


def protocol_error_job(_):
    def work(task):
        task.sleep(0.1)
        raise RpcError(-32603, "the job broke")
    return work


def confirm_delete(arguments):
    def work(task):
        answers = task.ask({"confirm-" + uuid.uuid4().hex[:8]: form("Delete it?", confirm={"type": "boolean"})})
        return text("deleted %s: %s" % (arguments.get("filename"), list(answers.values())[0].get("action")))
    return work


def multi_input(_):
    def work(task):
        task.ask({"first": form("Name?", name={"type": "string"}), "second": form("Sure?", confirm={"type": "boolean"})})
        return text("both answered")
    return work


# Each with: whether it can do without a task, and its work.
TOOLS = {"slow_compute": (True, slow_compute), "failing_job": (False, failing_job),
         "protocol_error_job": (False, protocol_error_job), "confirm_delete": (False, confirm_delete),
         "multi_input": (False, multi_input), "test_tool_with_task": (False, None), "greet": (True, None)}


def call_tool(params, declared):
    name, arguments = params.get("name"), params.get("arguments") or {}
    if name not in TOOLS:
        raise RpcError(-32602, "unknown tool")
    if name == "greet":
        return {"resultType": "complete", **text("Hello, %s!" % arguments.get("name"))}
    can_wait, work = TOOLS[name]
    if TASKS not in declared:
        if not can_wait:
            raise missing(TASKS)
        time.sleep(arguments.get("seconds", 0))
        return {"resultType": "complete", **text("computed")}
    if name == "test_tool_with_task":
        answer = (params.get("inputResponses") or {}).get("user_name")
        if answer is None:
            return {"resultType": "input_required", "requestState": "asked",
                    "inputRequests": {"user_name": form("Name?", name={"type": "string"})}}
        return Task(lambda task: text("Hello, %s!" % answer["content"]["name"])).shown(resultType="task")
    return Task(work(arguments)).shown(resultType="task")


def task_of(params):
    task = Task.all.get(params.get("taskId"))
    if task is None:
        raise RpcError(-32602, "Task not found")
    return task


def skill(name, description, files):
    """The entry of a skill, and its files by address."""
    root = "skill://%s/" % name
    head = "---\nname: %s\ndescription: %s\n---\n\n# %s\n" % (name, description, name)
    contents = {root + "SKILL.md": head, **{root + path: body for path, body in files.items()}}
    resources = [{"uri": uri, "digest": "sha256:" + hashlib.sha256(body.encode()).hexdigest(), "size": len(body.encode())}
                 for uri, body in contents.items()]
    entry = {"uri": root + "SKILL.md", "frontmatter": {"name": name, "description": description}, "resources": resources}
    return entry, contents


SETS = {"a": [("git-workflow", "How we commit", {"references/GUIDE.md": "one idea each\n", "scripts/check.sh": "true\n"}),
              ("review", "How we review", {"references/LIST.md": "read it twice\n"})],
        "b": [("deploy", "How we deploy", {"references/STEPS.md": "build, swap, drain\n"}),
              ("review-code", "How they review", {"references/LIST.md": "read it once\n"})]}


class Skills:
    entries, files = [], {}

    def load(self, name):
        for one in SETS[name]:
            entry, contents = skill(*one)
            self.entries.append(entry)
            self.files.update(contents)

    def list(self, params):
        # One a page, so that pages are merged too.
        at = int(params.get("cursor") or 0)
        page = {"skills": self.entries[at:at + 1], "ttlMs": 60000, "cacheScope": "public"}
        return {**page, **({"nextCursor": str(at + 1)} if at + 1 < len(self.entries) else {})}

    def get(self, params):
        for entry in self.entries:
            if entry["uri"] == params.get("uri"):
                return {"skill": entry, "ttlMs": 60000, "cacheScope": "public"}
        raise RpcError(-32602, "no such skill", {"uri": params.get("uri")})

    def read(self, params):
        uri = params.get("uri")
        if uri not in self.files:
            raise RpcError(-32602, "Resource not found", {"uri": uri})
        return {"contents": [{"uri": uri, "mimeType": mime(uri), "text": self.files[uri]}], "ttlMs": 0,
                "cacheScope": "public"}

    def directory(self, params):
        root = (params.get("uri") or "").rstrip("/") + "/"
        if params.get("uri") in self.files or not any(uri.startswith(root) for uri in self.files):
            raise RpcError(-32602, "not a directory", {"uri": params.get("uri")})
        children = {}
        for uri in self.files:
            if uri.startswith(root):
                first, _, rest = uri[len(root):].partition("/")
                children[root + first] = {"uri": root + first, "name": first,
                                          "mimeType": "inode/directory" if rest else mime(uri)}
        return {"resources": list(children.values()), "ttlMs": 0, "cacheScope": "public"}

    def resources(self):
        listed = [{"uri": entry["uri"], "name": entry["frontmatter"]["name"], "mimeType": "text/markdown",
                   "description": entry["frontmatter"]["description"]} for entry in self.entries]
        return {"resources": listed, "ttlMs": 0, "cacheScope": "public"}


def mime(uri):
    return "text/markdown" if uri.endswith(".md") else "text/plain"


SERVED = Skills()


def answer(method, params, capabilities, opts):
    declared = capabilities.get("extensions") or {}
    if method == "server/discover":
        extensions = {SKILLS: {"directoryRead": True}, **({} if opts.skills == "b" else {TASKS: {}})}
        return {"supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "public",
                "capabilities": {"tools": {}, "resources": {}, "extensions": extensions}}
    if method == "tools/list":
        names = [] if opts.skills == "b" else TOOLS
        tools = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in names]
        return {"tools": tools, "ttlMs": 0, "cacheScope": "public"}
    if method == "tools/call":
        return call_tool(params, declared)
    if method in ("tasks/get", "tasks/update", "tasks/cancel"):
        if TASKS not in declared:
            raise missing(TASKS)
        task = task_of(params)
        if method == "tasks/get":
            return task.shown(resultType="complete")
        task.answer(params.get("inputResponses") or {}) if method == "tasks/update" else task.settle("cancelled", {})
        return {}
    known = {"resources/list": lambda _: SERVED.resources(), "resources/read": SERVED.read, "skills/list": SERVED.list,
             "skills/get": SERVED.get, "resources/directory/read": SERVED.directory,
             "resources/templates/list": lambda _: {"resourceTemplates": [], "ttlMs": 0, "cacheScope": "public"}}
    if method in known:
        return known[method](params)
    raise RpcError(-32601, "Method not found", None, 404)


class Http(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        params = message.get("params") or {}
        capabilities = (params.get("_meta") or {}).get(P + "clientCapabilities") or {}
        reply = {"jsonrpc": "2.0", "id": message.get("id")}
        status = 200
        try:
            named = {"tools/call": "name", "resources/read": "uri", "tasks/get": "taskId", "tasks/update": "taskId",
                     "tasks/cancel": "taskId"}.get(message.get("method"))
            if self.headers.get("Mcp-Method") not in (None, message.get("method")):
                raise RpcError(-32020, "Header mismatch: Mcp-Method", None, 400)
            if named and self.headers.get("Mcp-Name") != params.get(named):
                raise RpcError(-32020, "Header mismatch: Mcp-Name", None, 400)
            result = answer(message.get("method"), params, capabilities, self.server.opts)
            info = {P + "serverInfo": {"name": "extserver", "version": "1.0.0"}}
            reply["result"] = {"resultType": "complete", **result, "_meta": info}
        except RpcError as error:
            status = error.status
            reply["error"] = {"code": error.code, "message": error.message}
            if error.data is not None:
                reply["error"]["data"] = error.data
        body = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_response(405)
        self.send_header("Content-Length", "0")
        self.end_headers()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--http", type=int, metavar="PORT", required=True)
    options.add_argument("--skills", choices=["a", "b"], default="a")
    opts = options.parse_args()
    SERVED.load(opts.skills)

    class Server(ThreadingHTTPServer):
        daemon_threads, request_queue_size = True, 128
    server = Server(("127.0.0.1", opts.http), Http)
    server.opts = opts
    sys.stderr.write("extserver: http://127.0.0.1:%d/mcp\n" % server.server_port)
    sys.stderr.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
