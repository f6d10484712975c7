"""The 35 cases of the MCP Gateway Security Bench (MCPSB 0.1), each as an attack beside the call that must work.

A case gives `good`, whether what must work did, and `breach`, what the attack achieved, or nothing. Both come from
outside the gateway: from the servers' journal, from a sink, or from what the attacker holds in hands. Only the cases of
the audit log read what the gateway writes, because that is what they are about.
"""

import secrets
import subprocess
import time
import urllib.parse

from world import METADATA, OUTSIDE, PRIVATE, SECRET

ERAS = ["legacy", "modern"]
CASES = []


def case(name, sent, seen, eras=ERAS):
    def keep(function):
        CASES.append((name, sent, seen, eras, function))
        return function

    return keep


def word():
    return f"w{secrets.token_hex(8)}"


# A call that always works, for each server whose journal is read.
FENCES = {"desk": ("alice", "desk__echo"), "globex": ("bob", "globex__read_doc"), "pinned": ("alice", "pinned__drift"),
          "second": ("alice", "harmless")}


def reached(target, text, server="desk", **where):
    """How many messages with this word a server has received. A call of our own goes before: servers read one message
    after the other, so whatever was sent to this one earlier is in its journal by then."""
    person, tool = FENCES[server]
    assert getattr(target, person)("modern").call(tool).was_served, f"{tool} does not work"
    return len(target.journal(text=text, server=server, **where))


def served(target, answer, text, **where):
    """A breach if the servers received the word, or the attacker got a result."""
    count = reached(target, text, **where)
    if count:
        return f"the server received it {count} times"
    return "the attacker got a result" if answer.was_served else None


def until(condition):
    """Whether this comes true within a minute."""
    for _ in range(1200):
        if condition():
            return True
        time.sleep(0.05)
    return False


# --- who calls -------------------------------------------------------------------------------------


@case("AUTH-001.a", "`tools/list` without a credential", "no tool is named to the caller")
def unknown_caller_lists(target, era):
    good = "desk__echo" in target.alice(era).tools().names()
    names = target.client(None, era).tools().names()
    return good, names and f"it sees {len(names)} tools"


@case("AUTH-001.b", "`tools/call` without a credential, and with a token that another key signed", "0 calls")
def unknown_caller_calls(target, era):
    mine, theirs, forged = word(), word(), word()
    good = target.alice(era).call("desk__echo", message=mine).was_served and reached(target, mine) == 1
    answer = target.client(None, era).call("desk__echo", message=theirs)
    bad = target.world.forger.sign(target.world.provider.claims("alice", "acme"))
    other = target.client(bad, era).call("desk__echo", message=forged)
    return good, served(target, answer, theirs) or served(target, other, forged)


@case("AUTH-002.b", "a token of one person, with headers that claim to be another", "0 calls at the other's server")
def token_of_another(target, era):
    theirs = word()
    good = "document-of-globex" in target.bob(era).call("globex__read_doc")
    claimed = {"X-Principal": "bob", "X-Forwarded-User": "bob", "X-Remote-User": "bob"}
    answers = [target.alice(era).call(name, claimed, message=theirs) for name in ("acme__read_doc", "globex__read_doc")]
    if any("document-of-globex" in answer for answer in answers):
        return good, "it holds the other's document"
    return good, reached(target, theirs, server="globex") and "the other's server was called"


@case("AUTH-003.b", "a token that ended a quarter of an hour ago", "0 calls")
def expired_token(target, era):
    mine, theirs = word(), word()
    good = target.alice(era).call("desk__echo", message=mine).was_served and reached(target, mine) == 1
    token = target.world.provider.token("alice", "acme", exp=int(time.time()) - 900)
    return good, served(target, target.client(token, era).call("desk__echo", message=theirs), theirs)


@case("AUTH-004.b", "tokens for another resource, for one that begins alike, and for none", "0 calls")
def token_for_another(target, era):
    mine = word()
    good = target.alice(era).call("desk__echo", message=mine).was_served and reached(target, mine) == 1
    found = None
    for audience in ["https://other.example", "https://mcp.example.evil.test", "https://mcp.example/servers/acme/mcp", []]:
        theirs = word()
        token = target.world.provider.token("alice", "acme", aud=audience)
        found = found or served(target, target.client(token, era).call("desk__echo", message=theirs), theirs)
    return good, found


# --- what they may do ------------------------------------------------------------------------------


@case("AUTHZ-001.b", "`tools/call` of a tool that the caller's permit does not name", "0 calls")
def tool_without_permit(target, era):
    mine, theirs = word(), word()
    good = target.alice(era).call("desk__render", message=mine).was_served and reached(target, mine) == 1
    return good, served(target, target.bob(era).call("desk__render", message=theirs), theirs)


@case("AUTHZ-001.c", "`prompts/get` of a prompt that the permit does not name", "0 requests")
def prompt_without_permit(target, era):
    mine, theirs = word(), word()
    ask = lambda client, text: client.ask("prompts/get", {"name": "desk__greeting", "arguments": {"message": text}})
    good = ask(target.alice(era), mine).was_served and reached(target, mine) == 1
    return good, served(target, ask(target.bob(era), theirs), theirs)


@case("AUTHZ-001.d", "`resources/read` of a resource that the permit does not name", "0 requests")
def resource_without_permit(target, era):
    reads = lambda: reached(target, "note://public", method="resources/read")
    read = lambda client: client.ask("resources/read", {"uri": "note://public"})
    before = reads()
    good = read(target.alice(era)).was_served and reads() == before + 1
    answer = read(target.bob(era))
    return good, (reads() > before + 1 or answer.was_served) and "it was read"


@case("AUTHZ-001.e", "the same tool in a batch", "0 calls", ["legacy"])
def batch_without_permit(target, era):
    mine, theirs = word(), word()
    good = target.alice(era).batch([("desk__render", {"message": mine})])[0].was_served and reached(target, mine) == 1
    return good, served(target, target.bob(era).batch([("desk__render", {"message": theirs})])[0], theirs)


@case("AUTHZ-002.a", "`tools/list` by a caller to whom a tool is denied", "the tool is not named")
def denied_tool_is_listed(target, era):
    names = target.alice(era).tools().names()
    return "desk__echo" in names, "desk__admin_ping" in names and "it is listed"


@case("AUTHZ-002.b", "`tools/call` of the tool that was not listed", "0 calls")
def denied_tool_is_called(target, era):
    mine, theirs = word(), word()
    client = target.alice(era)
    client.tools()
    good = client.call("desk__echo", message=mine).was_served and reached(target, mine) == 1
    return good, served(target, client.call("desk__admin_ping", message=theirs), theirs)


SPELLINGS = ["desk__Admin_Ping", "desk__ADMIN_PING", "desk__admin_ping.", "desk__admin_ping ", " desk__admin_ping",
             "Desk__admin_ping", "desk__\N{FULLWIDTH LATIN SMALL LETTER A}dmin_ping", "admin_ping"]


@case("AUTHZ-003.a", "`tools/list` by a caller to whom a tool is denied", "no spelling of its name is there")
def spelling_is_listed(target, era):
    names = [name.strip().rstrip(".").lower() for name in target.alice(era).tools().names()]
    return "desk__echo" in names, any("admin_ping" in name for name in names) and "it is listed"


@case("AUTHZ-003.b", f"`tools/call` of a denied tool under {len(SPELLINGS)} other spellings", "0 calls")
def spelling_of_a_tool(target, era):
    mine, found = word(), None
    client = target.alice(era)
    good = client.call("desk__echo", message=mine).was_served and reached(target, mine) == 1
    for name in SPELLINGS:
        theirs = word()
        try:
            found = found or served(target, client.call(name, message=theirs), theirs)
        except (OSError, KeyError):
            continue
    return good, found


@case("AUTHZ-003.c", "`prompts/get` of a denied prompt under other spellings", "0 requests")
def spelling_of_a_prompt(target, era):
    ask = lambda client, name, text: client.ask("prompts/get", {"name": name, "arguments": {"message": text}})
    mine, found = word(), None
    good = ask(target.alice(era), "desk__greeting", mine).was_served and reached(target, mine) == 1
    for name in ["desk__salary", "desk__Salary", "desk__SALARY", "desk__salary."]:
        theirs = word()
        found = found or served(target, ask(target.alice(era), name, theirs), theirs)
    return good, found


@case("AUTHZ-003.d", "`resources/read` of a denied resource under other spellings, which a template of the server fits",
      "0 requests")
def spelling_of_a_resource(target, era):
    read = lambda uri: target.alice(era).ask("resources/read", {"uri": uri})
    reads = lambda: sum("hidden" in str(one["name"]).lower() or "%" in str(one["name"])
                        for one in target.journal(method="resources/read"))
    good, before = read("note://public").was_served, reads()
    uris = ["note://hidden", "note://Hidden", "NOTE://hidden", "note://HIDDEN", "note://%68idden", "note://hidden.",
            "tsugi://desk/note://hidden", "tsugi://desk/note://Hidden", "note://x/../hidden"]
    answers = [read(uri) for uri in uris]
    reached(target, "fence")
    return good, (reads() > before or any(one.was_served for one in answers)) and "it was read"


@case("AUTHZ-004.e", "a batch of a call that is allowed and one that is not", "1 call, the allowed one", ["legacy"])
def denied_tool_in_a_batch(target, era):
    mine, theirs = word(), word()
    first, second = target.alice(era).batch([("desk__echo", {"message": mine}), ("desk__admin_ping", {"message": theirs})])
    return first.was_served and reached(target, mine) == 1, served(target, second, theirs)


# --- tenants ---------------------------------------------------------------------------------------


def cross_tenant(target, answers, theirs):
    if any("document-of-globex" in answer for answer in answers):
        return "it holds the other tenant's document"
    return reached(target, theirs, server="globex") and "the other tenant's server was called"


@case("TENANT-001.b", "a call whose arguments name another tenant", "0 calls at the other tenant's server")
def tenant_in_arguments(target, era):
    theirs = word()
    good = "document-of-acme" in target.alice(era).call("acme__read_doc")
    answer = target.alice(era).call("acme__read_doc", tenant="globex", org="globex", message=theirs)
    return good, cross_tenant(target, [answer], theirs)


@case("TENANT-002.b", "headers, `_meta` and a path that name another tenant", "0 calls at the other tenant's server")
def tenant_in_headers(target, era):
    theirs = word()
    alice = target.alice(era)
    good = "document-of-acme" in alice.call("acme__read_doc")
    headers = {"X-Tenant": "globex", "X-Tenant-Id": "globex", "Mcp-Param-Tenant": "globex"}
    answers = [
        alice.call("acme__read_doc", headers, meta={"tenant": "globex"}, message=theirs),
        alice.call("acme__read_doc", {}, meta={"tenant": "globex"}, message=theirs),
        alice.call("globex__read_doc", headers, message=theirs),
        alice.call("read_doc", {}, "/servers/globex/mcp", message=theirs),
    ]
    return good, cross_tenant(target, answers, theirs)


# --- where servers may connect to ------------------------------------------------------------------


def fetched(target, era, urls):
    """Asks the server for each address, by the proxy it was given and past it."""
    for url in urls:
        for way in ("proxy", "direct"):
            target.alice(era).call("reach__fetch", url=url, way=way)


def reaches_outside(target, era):
    """The call that must work: a listed name that leads to a public address."""
    world, mine = target.world, word()
    world.names.say("good.test", OUTSIDE)
    fetched(target, era, [f"http://good.test:{world.sink.port}/{mine}"])
    return world.sink.count(mine, OUTSIDE) >= 1


def inside(target, era, theirs, urls, sink=None):
    good, sink = reaches_outside(target, era), sink or target.world.sink
    fetched(target, era, urls)
    count = sum(theirs in path and address != OUTSIDE for address, path in sink.reached)
    return good, count and f"the sink was reached {count} times"


@case("SSRF-001.b", "a listed name that leads to loopback or a private network, and such addresses themselves",
      "0 connections at the sink")
def private_address(target, era):
    theirs, port = word(), target.world.sink.port
    target.world.names.say("internal.test", "127.0.0.1", PRIVATE)
    hosts = ["internal.test", "internal.test", "internal.test", "127.0.0.1", PRIVATE, "localhost", "127.1", "0x7f000001",
             "2130706433", "0"]
    return inside(target, era, theirs, [f"http://{host}:{port}/{theirs}" for host in hosts])


@case("SSRF-002.b", f"{METADATA}, although the list names it", "0 connections at the sink")
def metadata_service(target, era):
    theirs = word()
    target.world.names.say("internal.test", METADATA)
    urls = [f"http://{METADATA}/{theirs}", f"http://[::ffff:{METADATA}]/{theirs}", f"http://metadata.google.internal/{theirs}",
            f"http://internal.test:{target.world.sink.port}/{theirs}"]
    good, found = inside(target, era, theirs, urls, target.world.metadata)
    return good, found or (target.world.sink.count(theirs) and "a name led to it")


@case("SSRF-003.b", "IPv6 loopback and IPv4 addresses written as IPv6", "0 connections at the sink")
def other_encodings(target, era):
    theirs, port = word(), target.world.sink.port
    hosts = ["[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", f"[::ffff:{PRIVATE}]",
             "[::127.0.0.1]", "[64:ff9b::7f00:1]"]
    return inside(target, era, theirs, [f"http://{host}:{port}/{theirs}" for host in hosts])


@case("SSRF-004.b", "a listed name that is public when it is looked up first, and loopback from then on",
      "0 connections at loopback")
def rebinding(target, era):
    good, found = True, None
    for _ in range(3):
        theirs = word()
        target.world.names.say("rebind.test", OUTSIDE, "127.0.0.1")
        for _ in range(2):
            target.alice(era).call("reach__fetch", url=f"http://rebind.test:{target.world.sink.port}/{theirs}", way="proxy")
        count = sum(theirs in path and address != OUTSIDE for address, path in target.world.sink.reached)
        # What was looked up is what was connected to.
        good = good and target.world.sink.count(theirs, OUTSIDE) == 1
        found = found or (count and f"loopback was reached {count} times")
    return good or bool(found), found


@case("SSRF-005.b", "a listed host that redirects to loopback, a private network and the metadata service",
      "1 connection at the listed host each, 0 at the sink")
def redirects(target, era):
    theirs, port = word(), target.world.sink.port
    target.world.names.say("hop.test", OUTSIDE)
    target.world.names.say("internal.test", "127.0.0.1")
    ends = [f"http://127.0.0.1:{port}/{theirs}", f"http://{PRIVATE}:{port}/{theirs}", f"http://internal.test:{port}/{theirs}",
            f"http://{METADATA}/{theirs}"]
    urls = [f"http://hop.test:{port}/to/{urllib.parse.quote(end, safe='')}" for end in ends]
    good, found = inside(target, era, theirs, urls)
    hops = sum(path.startswith("/to/") and theirs in path for _, path in target.world.sink.reached)
    count = target.world.metadata.count(theirs)
    return good and hops >= len(ends), found or (count and "the metadata service was reached")


@case("EGRESS-001.b", "names that end or begin like a listed one", "0 connections at the sink")
def suffixes(target, era):
    theirs, port = word(), target.world.sink.port
    names = ["good.test.evil.test", "evilgood.test", "good.test.", "x.good.test", "good.tes", "good-test"]
    for name in names:
        target.world.names.say(name.rstrip("."), OUTSIDE)
    target.world.names.say("good.test", OUTSIDE)
    good = reaches_outside(target, era)
    # The final dot only says that the name is complete: it is the listed host.
    fetched(target, era, [f"http://{name}:{port}/{theirs}" for name in names if name != "good.test."])
    count = target.world.sink.count(theirs)
    return good, count and f"the sink was reached {count} times"


# --- what servers offer ----------------------------------------------------------------------------


def drifted(target):
    """The tool as it is listed before and after its server changed it, which happens once per gateway."""
    if not hasattr(target, "before_drift"):
        mine = word()
        is_served = target.alice("modern").call("pinned__convert", message=mine).was_served
        is_good = is_served and len(target.journal(text=mine, server="pinned")) == 1
        target.before_drift = (target.alice("modern").tools().tool("pinned__convert"), is_good)
        target.alice("modern").call("pinned__drift")
        if target.name == "tsugi":
            # A moment passes until the gateway has asked for the tools again. If it never refuses, the cases say so.
            until(lambda: not target.alice("modern").call("pinned__convert").was_served)
    return target.before_drift


@case("SCHEMA-001.a", "`tools/list` after the server gave a pinned tool one more argument", "the argument is not listed")
def argument_is_listed(target, era):
    before, good = drifted(target)
    after = target.alice(era).tools().tool("pinned__convert") or {"inputSchema": {}}
    gained = set(after["inputSchema"].get("properties", {})) - set(before["inputSchema"]["properties"])
    return good, gained and f"it gained {sorted(gained)}"


@case("SCHEMA-001.b", "a call with the new argument, and with one that no schema names", "0 calls")
def argument_is_sent(target, era):
    _, good = drifted(target)
    found = None
    for name in ("recipient", "unheard_of"):
        theirs = word()
        answer = target.alice(era).call("pinned__convert", **{name: theirs})
        found = found or served(target, answer, theirs, server="pinned")
    return good, found


@case("SCHEMA-002.a", "`tools/list` after the server rewrote the tool's description", "the description is the pinned one")
def description_is_listed(target, era):
    before, good = drifted(target)
    after = target.alice(era).tools().tool("pinned__convert")
    return good, after is not None and after["description"] != before["description"] and "it is the new one"


@case("SCHEMA-002.b", "a call of the tool with the rewritten description", "0 calls")
def rewritten_tool_is_called(target, era):
    _, good = drifted(target)
    theirs = word()
    return good, served(target, target.alice(era).call("pinned__convert", message=theirs), theirs, server="pinned")


def shadowed(target):
    if not hasattr(target, "before_shadow"):
        target.before_shadow = "found by first" in target.alice("modern").call("lookup")
        target.alice("modern").call("drift")
        # The server lists one more tool with it, which shows when the gateway has asked again.
        target.before_shadow &= until(lambda: "extra" in target.alice("modern").tools().names())
    return target.before_shadow


@case("SCHEMA-003.a", "`tools/list` after a second server claims a tool's name", "the name is there once at most")
def name_is_listed_twice(target, era):
    good, names = shadowed(target), target.alice(era).tools().names()
    return good, names.count("lookup") > 1 and "it is listed twice"


@case("SCHEMA-003.b", "a call by that name", "0 calls at the second server")
def name_is_taken_over(target, era):
    good, theirs = shadowed(target), word()
    target.alice(era).call("lookup", message=theirs)
    return good, reached(target, theirs, server="second") and "the second server was called"


# --- sessions, secrets, audit ----------------------------------------------------------------------


@case("SESSION-001.f", "another person's call in a session of their own, in the first one's session, and without one",
      "0 calls of it at the process that has the first one's state")
def state_of_another_session(target, era):
    theirs, late = word(), word()
    writer = target.alice(era)
    writer.call("memory__stash", message=theirs)
    good = theirs in writer.call("memory__recall")
    reader, thief = target.bob(era), target.bob(era)
    thief.session = writer.session or "session-of-alice"
    answers = [reader.call("memory__recall", message=late), thief.call("memory__recall", message=late)]
    again = target.bob(era)
    answers.append(again.call("memory__recall", message=late))
    if any(theirs in answer for answer in answers):
        return good, "it holds the other's state"
    owner = {one["process"] for one in target.journal(text=theirs, method="tools/call")}
    others = {one["process"] for one in target.journal(text=late, method="tools/call")}
    return good, bool(owner & others) and "the same process was asked"


@case("SECRET-001.b", "arguments with `${NAME}` and the like, for a secret of the gateway's environment",
      "the text as it was written, and a server without the variable")
def secret_in_arguments(target, era):
    name, value = SECRET
    theirs = word()
    probes = [f"${{{name}}}", f"${name}", f"%{name}%", f"${{env:{name}}}", "${file:/proc/self/environ}", f"{{{{{name}}}}}"]
    answers = [target.alice(era).call("desk__render", message=f"{theirs} {probe}") for probe in probes]
    good = sum(answer.was_served for answer in answers) == len(probes)
    if any(value in answer for answer in answers):
        return good, "the attacker holds the secret"
    if target.journal(text=value):
        return good, "the server received the secret"
    given = any(name in one.get("environment", []) for one in target.journal(method="start"))
    return good and reached(target, theirs) == len(probes), given and "the server has the variable"


def lines_about(target, kind, name):
    return sum(f'"kind":"{kind}"' in line and f'"name":"{name}"' in line for line in target.audit().splitlines())


def audited(target, act, count):
    """Whether as many calls as the server received have a line that says they began, and one that says they ended."""
    mine = word()
    before = lines_about(target, "call.begun", "echo"), lines_about(target, "call.ended", "echo")
    answers = act(mine)
    good = all(answer.was_served for answer in answers) and len(target.journal(text=mine)) == count
    after = lambda: (lines_about(target, "call.begun", "echo"), lines_about(target, "call.ended", "echo"))
    is_whole = until(lambda: after() == (before[0] + count, before[1] + count)) if target.name == "tsugi" else False
    return good, not is_whole and f"{count} calls, {after()[0] - before[0]} begun, {after()[1] - before[1]} ended"


@case("AUDIT-001.b", "a call", "1 call at the server, and its lines in the audit log")
def call_is_audited(target, era):
    return audited(target, lambda mine: [target.alice(era).call("desk__echo", message=mine)], 1)


@case("AUDIT-001.e", "a batch of three calls", "3 calls at the server, and the lines of each in the audit log", ["legacy"])
def batch_is_audited(target, era):
    return audited(target, lambda mine: target.alice(era).batch([("desk__echo", {"message": mine})] * 3), 3)


@case("AUDIT-002.b", "a call with a sensitive argument and a token", "the server has it; audit log and log have neither")
def argument_is_audited(target, era):
    theirs = word()
    client = target.alice(era)
    good = client.call("desk__echo", message=theirs).was_served and reached(target, theirs) == 1
    written = target.audit() + (target.log.read_text() if target.log.exists() else "")
    return good, (theirs in written and "the argument is written down") or (client.token in written and "the token is")


def audit_is_whole(target, program):
    """Whether the audit log of a gateway that stopped verifies."""
    done = subprocess.run([program, "audit", "verify", str(target.audit_file)], capture_output=True, text=True)
    return done.returncode == 0, done.stdout + done.stderr
