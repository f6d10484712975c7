"""Loads converted tools with the real SDKs, which are the only judges of "as the SDK takes it".

usage: check_dialects.py CONVERT FIXTURES...
  CONVERT   the built example `convert`
  FIXTURES  JSON files, each a tool {"name", "description", "inputSchema"} or a list of tools
Needs the packages google-genai, openai and anthropic.
"""

import json
import subprocess
import sys

import pydantic
from anthropic.types import ToolParam
from google.genai import types as gemini
from openai.types.chat import ChatCompletionToolParam
from openai.types.responses import FunctionToolParam


def check_gemini(tools):
    for tool in tools:
        loaded = gemini.Tool.model_validate(tool)
        assert loaded.function_declarations, "an empty list of declarations is refused by the service"
        gemini.GenerateContentConfig(tools=[loaded])


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


def main(convert, paths):
    tools = read_tools(paths)
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
    sys.exit(main(sys.argv[1], sys.argv[2:]))
