"""Loads converted tools with the real SDKs, which are the only judges of "as the SDK takes it".

usage: check_dialects.py CONVERT FIXTURES...
       check_dialects.py --real TSUGI CONVERT
  CONVERT   the built example `convert`
  FIXTURES  JSON files, each a tool {"name", "description", "inputSchema"} or a list of tools
  TSUGI     the program, which asks the real servers that scripts/test-env installed
Needs the packages google-genai, openai and anthropic.
"""

import json
import os
import subprocess
import sys
import tempfile

import pydantic
from anthropic.types import ToolParam
from google.genai import types as gemini
from openai.types.chat import ChatCompletionToolParam
from openai.types.responses import FunctionToolParam


def check_gemini(tool):
    loaded = gemini.Tool.model_validate(tool)
    assert loaded.function_declarations, "an empty list of declarations is refused by the service"
    gemini.GenerateContentConfig(tools=[loaded])
    gemini.GenerateContentConfig(tools=[tool])


def check_list(kind):
    adapter = pydantic.TypeAdapter(kind)

    def check(tools):
        for tool in tools:
            loaded = adapter.validate_python(tool)
            assert set(loaded) == set(tool), f"unknown keys {set(tool) - set(loaded)}"

    return check


CHECKS = [
    (["gemini"], check_gemini),
    (["gemini-classic"], check_gemini),
    (["openai"], check_list(FunctionToolParam)),
    (["openai", "--chat"], check_list(ChatCompletionToolParam)),
    (["anthropic"], check_list(ToolParam)),
]


def read_tools(paths):
    tools = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        tools.extend(content if isinstance(content, list) else [content])
    return tools


def real_servers(folder):
    """The servers that are installed here, as a configuration has them."""
    node, modern, legacy, serena = (
        os.environ.get(f"TSUGI_TEST_{name}") for name in ("NODE", "PY", "PY1", "SERENA")
    )

    def package(name, *arguments):
        script = f"{node}/node_modules/@modelcontextprotocol/server-{name}/dist/index.js"
        return {"name": name, "command": "node", "args": [script, *arguments]}

    servers = []
    if node:
        servers += [package("everything"), package("filesystem", folder), package("memory")]
    if modern:
        servers += [{"name": name, "command": f"{modern}/bin/mcp-server-{name}"} for name in ("time", "git")]
    if legacy:
        arguments = ["--db-path", f"{folder}/rows.db"]
        servers.append({"name": "sqlite", "command": f"{legacy}/bin/mcp-server-sqlite", "args": arguments})
    if serena:
        flags = ["--agent-interface", "tools", "--enable-web-dashboard", "false", "--open-web-dashboard", "false"]
        home = {"SERENA_HOME": f"{folder}/serena"}
        servers.append({"name": "serena", "command": serena, "args": ["start-mcp-server", *flags], "env": home})
    return servers


def tsugi_says(tsugi, config, *arguments):
    command = [tsugi, "tools", "--quiet", "--config", config, *arguments]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=180).stdout)


def declarations(tools):
    """Gemini takes one tool with many functions, the others a list."""
    return tools["functionDeclarations"] if isinstance(tools, dict) else tools


def check_real(tsugi, convert):
    """Every tool of every real server, as `tsugi tools --for` prints it and one by one."""
    with tempfile.TemporaryDirectory() as folder:
        servers = real_servers(folder)
        if not servers:
            print("skipped: none of the real servers is installed (scripts/test-env installs them)")
            return 0
        config = f"{folder}/tsugi.json"
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"servers": servers}, file)
        tools = tsugi_says(tsugi, config, "--json")["tools"]
        assert {tool["server"] for tool in tools} == {server["name"] for server in servers}, "a server has no tools"
        for arguments, check in CHECKS:
            together = tsugi_says(tsugi, config, "--for", *arguments)
            check(together)
            assert len(declarations(together)) == len(tools), f"{arguments}: a tool is missing"
        print(f"{len(servers)} real servers, {len(tools)} tools")
        return check_tools(convert, tools)


def main(convert, paths):
    return check_tools(convert, read_tools(paths))


def check_tools(convert, tools):
    failures = 0
    for arguments, check in CHECKS:
        result = subprocess.run(
            [convert, "--for", *arguments, "--lines"],
            input=json.dumps(tools),
            capture_output=True,
            text=True,
            check=True,
        )
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        assert len(lines) == len(tools), "one line per tool"
        refused = 0
        for line in lines:
            try:
                check(line["tools"])
            except Exception as error:  # every refusal counts, whatever its type
                refused += 1
                print(f"{' '.join(arguments)}: {line['name']}: {error}", file=sys.stderr)
        failures += refused
        print(f"{' '.join(arguments):<16} {len(lines) - refused} of {len(lines)} tools accepted")
    return 1 if failures else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    if sys.argv[1] == "--real":
        sys.exit(check_real(sys.argv[2], sys.argv[3]))
    sys.exit(main(sys.argv[1], sys.argv[2:]))
