# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Drives both language servers as an editor does. Prints "ok NAME" or "FAIL NAME"; exit status 1 after a failure.
Usage: editors.py ROOT WORK, where WORK has model.mlir, dispatches.mlir and plan.mlir."""
import json
import pathlib
import sys
import traceback

from language_client import Client

root, work = map(pathlib.Path, sys.argv[1:])
spec_server = [str(root / "build/bin/sluice-spec-lsp")]
ir_server = [str(root / "build/bin/sluice-lsp-server"), "--log=error"]
uri = "file:///models/a%20model.json"
failures = 0


def check(name, holds, found=""):
    global failures
    print(("ok " if holds else "FAIL ") + name)
    if not holds:
        failures += 1
        print("  found:", json.dumps(found)[:600])


def severe(diagnostics, most):
    """Those that are errors (1) or, with `most` 2, warnings."""
    return [each for each in diagnostics if each["severity"] <= most]


def place_of(text, part):
    """Line and UTF-16 code unit of the first `part`."""
    before = text[:text.index(part)]
    last = before.rsplit("\n", 1)[-1]
    return before.count("\n"), len(last.encode("utf-16-le")) // 2


def hover(client, document, text, part):
    line, character = place_of(text, part)
    result = client.at("textDocument/hover", document, line, character + 1)
    return result["contents"]["value"] if result else ""


def spec_session():
    client = Client(spec_server)
    capabilities = client.initialize()["capabilities"]
    check("the spec server tells what it can", capabilities["hoverProvider"] and capabilities["completionProvider"],
          capabilities)

    causal = (root / "models/tiny/hourglass.json").read_text()
    client.open(uri, causal)
    found = client.diagnostics(uri, 1)
    check("a valid spec has no errors or warnings", not severe(found, 2), found)

    leaky = (root / "test/causality/leaky/shift-missing.json").read_text()
    client.change(uri, 2, leaky)
    found = client.diagnostics(uri, 2)
    line, character = place_of(leaky, '{ "op": "shorten"')
    start = {"line": line, "character": character}
    check("a leak is an error at its stage", len(severe(found, 1)) == 1 and found[0]["severity"] == 1
          and found[0]["code"] == "leak" and found[0]["range"]["start"] == start, found)
    check("the leak has its remedy", "shift by 3" in found[0]["message"], found)
    steps = found[0]["relatedInformation"]
    check("each step of the path is named", [step["message"].split(":")[0] for step in steps][:2] == ["embedding", "shorten"]
          and steps[1]["location"] == {"uri": uri, "range": found[0]["range"]}, steps)

    def quick_fixes(only=None):
        context = {"diagnostics": [found[0]]} | ({"only": only} if only else {})
        return client.request("textDocument/codeAction", {"textDocument": {"uri": uri}, "range": found[0]["range"],
                                                          "context": context})["result"]

    actions = quick_fixes()
    edits = actions[0]["edit"]["changes"][uri]
    lines = leaky.split("\n")
    for edit in reversed(edits):
        start, end = edit["range"]["start"], edit["range"]["end"]
        assert start["line"] == end["line"], edit
        line = lines[start["line"]]
        lines[start["line"]] = line[:start["character"]] + edit["newText"] + line[end["character"]:]
    check("a quick fix offers the advised edit", len(actions) == 1 and actions[0]["kind"] == "quickfix"
          and actions[0]["isPreferred"] and actions[0]["diagnostics"] == [found[0]]
          and actions[0]["title"].startswith("sluice: add a shift by 3 directly before the shorten at "), actions)
    check("no quick fix where another kind is wanted", quick_fixes(["refactor"]) == [])
    client.change(uri, 8, "\n".join(lines))
    found = client.diagnostics(uri, 8)
    check("the quick fix ends the error", not severe(found, 1), found)
    client.change(uri, 9, leaky)
    client.diagnostics(uri, 9)

    fixed = leaky.replace('{ "op": "shorten"', '{ "op": "shift", "by": 3 },\n    { "op": "shorten"')
    client.change(uri, 13, fixed)
    found = client.diagnostics(uri, 13)
    check("the error goes with the leak", not severe(found, 1), found)
    text = hover(client, uri, fixed, '"shorten"')
    check("hover on a stage", "scale factor 4" in text and "[batch, ceil(context / 4), width]" in text, text)
    text = hover(client, uri, fixed, '"by"')
    check("hover on a key", "integer >= 0" in text, text)
    text = hover(client, uri, fixed, '"stages"')
    check("hover on the model has its verdict", "proved causal for every length" in text, text)

    wide = fixed.replace('"by": 3', '"by": 9')
    client.change(uri, 14, wide)
    found = client.diagnostics(uri, 14)
    line, character = place_of(wide, '{ "op": "shift"')
    waste = [each for each in found if each.get("code") == "waste"]
    check("a needless shift is a warning at its stage", len(waste) == 1 and waste[0]["severity"] == 2
          and waste[0]["range"]["start"] == {"line": line, "character": character}, found)

    slip = fixed.replace('"width"', '"widht"')
    client.change(uri, 15, slip)
    found = client.diagnostics(uri, 15)
    line, character = place_of(slip, '"widht"')
    expected = {"start": {"line": line, "character": character}, "end": {"line": line, "character": character + 7}}
    check("an unknown key is marked, with the nearest one", len(found) == 1 and found[0]["range"] == expected
          and 'did you mean "width"?' in found[0]["message"], found)

    clef = fixed.replace('"name": "shift-missing",', '"name": "\U0001d11e\u00e9\u20ac", "widht": 1,')
    client.change(uri, 16, clef)
    found = client.diagnostics(uri, 16)
    line, character = place_of(clef, '"widht"')
    check("columns count UTF-16", len(found) == 1
          and found[0]["range"]["start"] == {"line": line, "character": character}, found)

    line, character = place_of(fixed, '"average"')
    client.change(uri, 17, fixed)
    client.diagnostics(uri, 17)
    items = client.at("textDocument/completion", uri, line, character + 1)
    check("completion of values", [item["label"] for item in items] == ["average", "linear", "max", "convolution", "concatenate", "stack"], items)
    symbols = client.request("textDocument/documentSymbol", {"textDocument": {"uri": uri}})["result"]
    check("symbols are the stages", [symbol["name"] for symbol in symbols][:3] == ["0 embedding", "1 shift", "2 shorten"],
          symbols)

    client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    found = client.diagnostics(uri)
    check("closing clears the diagnostics", found == [], found)
    check("shutdown and exit end with 0", client.leave() == 0)


def malformed_session():
    client = Client(spec_server)
    early = client.request("textDocument/hover", {})
    check("a request before initialize is refused", early["error"]["code"] == -32002, early)
    client.initialize()
    client.body(b"{nonsense")
    answer = client.reply(None)
    check("a message that is no JSON is answered", answer["error"]["code"] == -32700, answer)
    client.raw(b"Content-Length: many\r\n\r\n")
    answer = client.reply(None)
    check("a header that is none is answered", answer["error"]["code"] == -32700, answer)
    client.body(b'{"jsonrpc": "2.0", "id": 5, "method": "x", "params": ' + b"[" * 100000 + b"]" * 100000 + b"}")
    answer = client.reply(None)
    check("a message that nests too deep is answered", answer["error"]["code"] == -32600, answer)
    answer = client.request("textDocument/rename", {})
    check("an unknown method is refused", answer["error"]["code"] == -32601, answer)
    answer = client.request("textDocument/hover", {"textDocument": {"uri": 7}})
    check("wrong parameters are refused", answer["error"]["code"] == -32602, answer)
    client.notify("textDocument/didOpen", {"nothing": True})
    client.notify("$/unknown", {})

    for name, text in [("deep", '{"stages":' * 100000), ("long", "[" + "1," * 1000000 + "1]"),
                       ("cut", '{"sluice": 1, "stages": [{"op": "la'), ("empty", ""), ("zero", "\0")]:
        document = "untitled:" + name
        client.open(document, text)
        found = client.diagnostics(document)
        check(f"a {name} document has one error", len(found) == 1 and found[0]["severity"] == 1, found)
    answer = client.request("textDocument/hover",
                            {"textDocument": {"uri": "untitled:deep"}, "position": {"line": 0, "character": 999999}})
    check("hover in a deep document is answered", "result" in answer, answer)

    client.notify("exit")
    check("exit without shutdown ends with 1", client.process.wait(client.timeout) == 1)


def limited_session():
    client = Client(spec_server + ["--limit", "1"])
    client.initialize()
    spec = json.loads((root / "models/tiny/hourglass.json").read_text())
    spec["stages"][1]["hierarchy"] = "1000@1 1000@4 1000@1" # so that the check takes longer than that
    client.open(uri, json.dumps(spec))
    found = client.diagnostics(uri)
    check("a check beyond its time says so", len(found) == 1 and found[0]["severity"] == 3
          and "run sluice check" in found[0]["message"], found)
    check("a server with a limit ends with 0", client.leave() == 0)


def ir_session():
    client = Client(ir_server)
    client.initialize()
    for level in ["model", "dispatches", "plan"]:
        document = f"file:///models/{level}.mlir"
        text = (work / f"{level}.mlir").read_text()
        client.open(document, text, "mlir")
        found = client.diagnostics(document)
        check(f"IR of the level {level} has no diagnostics", found == [], found)
    text = (work / "model.mlir").read_text()
    document = "file:///models/model.mlir"
    found = hover(client, document, text, "sluice.shorten")
    check("hover on an op of the model dialect", "sluice.shorten" in found and "factor = 4" in found, found)
    broken = text.replace("sluice.shorten", "sluice.shortne", 1)
    client.open(document, broken, "mlir")
    found = client.diagnostics(document)
    check("an unknown op is an error at its line", len(found) == 1 and "sluice.shortne" in found[0]["message"]
          and found[0]["range"]["start"]["line"] == place_of(broken, "sluice.shortne")[0], found)
    refused = text.replace(" factor 4 :", " factor 3 :", 1)
    client.open(document, refused, "mlir")
    found = client.diagnostics(document)
    check("what a verifier refuses is an error", len(found) >= 1 and found[0]["severity"] == 1, found)
    client.body(b"[" * 100000)
    check("the IR server refuses 100,000 brackets", client.reply(None)["error"]["code"] == -32600)
    client.body(b'{"jsonrpc":"2.0","id":1e999,"method":"shutdown"}')
    check("and a number that no double holds", client.reply(None)["error"]["code"] == -32700)
    for name, deep in [("brackets", "[" * 100000), ("types", "tuple<" * 100000), ("maps", "affine_map<(d0) -> (" + "(" * 100000)]:
        client.open(f"file:///models/{name}.mlir", deep, "mlir")
        found = client.diagnostics(f"file:///models/{name}.mlir")
        check(f"IR of 100,000 {name} is an error", len(found) == 1 and "nest at most 500" in found[0]["message"], found)
    client.open("file:///models/brackets.mlir", "[" * 499, "mlir")
    check("IR of 499 brackets is parsed", "nest at most" not in client.diagnostics("file:///models/brackets.mlir")[0]["message"])
    check("the IR server ends with 0", client.leave() == 0)


for session in [spec_session, malformed_session, limited_session, ir_session]:
    try:
        session()
    except Exception:
        check(f"{session.__name__} ran to its end", False, traceback.format_exc())
sys.exit(failures > 0)
