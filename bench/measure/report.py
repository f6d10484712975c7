"""The tables of `rig.py report`."""
import json, statistics


def med(xs):
    xs = [x for x in xs if x is not None]
    return statistics.median(xs) if xs else None


def num(x, d=0):
    if x is None:
        return "-"
    if x == 0:
        return "0"
    if d == 0 and abs(x) < 10:
        d = 1
    return f"{x:,.{d}f}"


def cmd_report(a):
    rows = [json.loads(l) for f in a.files for l in open(f) if l.strip()]
    mib = 1 << 20
    for up in ("stdio", "http"):
        for size in sorted({r["size"] for r in rows if r["kind"] == "matrix" and "size" in r}):
            sel = [r for r in rows if r["kind"] == "matrix" and r["upstream"] == up and r.get("size") == size]
            if not sel:
                continue
            print(f"\n### HTTP -> {up} upstream, {size} B result\n")
            print("| peer | mode | C | direct calls/s | calls/s | ratio (min..max) | p50 ms | p99 ms | direct p50/p99 ms | CPU us/call | errors/calls | n |")
            print("|---|---|---|---|---|---|---|---|---|---|---|---|")
            keys = sorted({(r["peer"], r["mode"]) for r in sel})
            order = {k: -(med([r["r"].get("cps", 0) / max(1, med([d.get("cps") or 0 for d in r["direct"]])) for r in sel
                               if (r["peer"], r["mode"]) == k and r["conc"] == 16]) or 0) for k in keys}
            for k in sorted(keys, key=lambda k: order[k]):
                for c in sorted({r["conc"] for r in sel}):
                    g = [r for r in sel if (r["peer"], r["mode"]) == k and r["conc"] == c]
                    if not g:
                        continue
                    dc = [statistics.mean([d.get("cps") or 0 for d in r["direct"]]) for r in g]
                    ratio = [r["r"].get("cps", 0) / d for r, d in zip(g, dc) if d]
                    e = sum(r["r"].get("errors", 0) for r in g)
                    t = sum(r["r"].get("total_calls", 0) for r in g)
                    dp50 = med([d.get("p50_us") for r in g for d in r["direct"]])
                    dp99 = med([d.get("p99_us") for r in g for d in r["direct"]])
                    f = lambda q: med([r["r"].get(q) for r in g if r["r"].get("calls")])
                    ms = lambda v: num(v / 1000, 2) if v is not None else "-"
                    print(f"| {k[0]} | {k[1]} | {c} | {num(med(dc))} | {num(med([r['r'].get('cps', 0) for r in g]))} | "
                          f"{med(ratio):.4f} ({min(ratio):.4f}..{max(ratio):.4f}) | {ms(f('p50_us'))} | {ms(f('p99_us'))} | "
                          f"{ms(dp50)}/{ms(dp99)} | {num(med([r.get('cpu_us_call') for r in g]))} | {e}/{t} | {len(g)} |")
    rss = [r for r in rows if r["kind"] == "rss"]
    if rss:
        print("\n### RSS of the gateway's own processes, MiB\n")
        print("| peer | mode | upstream | idle | after load | peak under load | procs | back-end processes, peak |")
        print("|---|---|---|---|---|---|---|---|")
        for k in sorted({(r["peer"], r["mode"], r["upstream"]) for r in rss}):
            g = [r for r in rss if (r["peer"], r["mode"], r["upstream"]) == k]
            m = [r for r in rows if r["kind"] == "matrix" and (r["peer"], r["mode"], r["upstream"]) == k and "rss_peak" in r]
            print(f"| {k[0]} | {k[1]} | {k[2]} | {num(med([r['idle']['rss'] / mib for r in g]))} | {num(med([r['end']['rss'] / mib for r in g]))} | "
                  f"{num(max([r['rss_peak'] / mib for r in m], default=None))} | {med([r['end']['procs'] for r in g])} | "
                  f"{max([r['backends_peak'] for r in m], default='-')} |")
    st = [r for r in rows if r["kind"] == "startup"]
    if st:
        print("\n### Start-up to the first full tools/list, ms\n")
        print("| peer | upstream | 1 server | 20 servers | RSS MiB with 1 / 20 | n |")
        print("|---|---|---|---|---|---|")
        for k in sorted({(r["peer"], r["upstream"]) for r in st}):
            g = lambda n: [r for r in st if (r["peer"], r["upstream"]) == k and r["servers"] == n]
            v = lambda n: med([r["w"]["ms"] for r in g(n) if r["w"].get("ok")])
            w = lambda n: med([r["weight"]["rss"] / mib for r in g(n) if "weight" in r])
            bad = sum(1 for r in g(1) + g(20) if not r["w"].get("ok"))
            print(f"| {k[0]} | {k[1]} | {num(v(1))} | {num(v(20))} | {num(w(1))} / {num(w(20))} | {len(g(1))}{f', {bad} failed' if bad else ''} |")
    ls = [r for r in rows if r["kind"] == "list"]
    if ls:
        print("\n### tools/list of 20 servers x 50 tools\n")
        print("| peer | mode | upstream | C | direct lists/s | lists/s | ratio | p50 ms | p99 ms | CPU ms/list | KB/list | tools | RSS idle -> after MiB | errors |")
        print("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
        for k in sorted({(r["peer"], r["mode"], r["upstream"]) for r in ls}):
            for c in (1, 16):
                g = [r for r in ls if (r["peer"], r["mode"], r["upstream"]) == k and r.get("conc") == c]
                if not g:
                    continue
                dc = [r["direct"][0].get("cps") or 0 for r in g]
                ratio = [r["r"].get("cps", 0) / d for r, d in zip(g, dc) if d]
                kb = med([r["r"]["bytes"] / max(1, r["r"]["total_calls"]) / 1000 for r in g if "bytes" in r["r"]])
                f = lambda q: med([r["r"].get(q, 0) / 1000 for r in g if r["r"].get("calls")])
                print(f"| {k[0]} | {k[1]} | {k[2]} | {c} | {num(med(dc))} | {num(med([r['r'].get('cps', 0) for r in g]), 1)} | {num(med(ratio), 4)} | "
                      f"{num(f('p50_us'), 1)} | {num(f('p99_us'), 1)} | {num(med([r['cpu_us_call'] / 1000 if r.get('cpu_us_call') else None for r in g]), 2)} | {num(kb)} | "
                      f"{med([r['r'].get('tools') for r in g])} | {num(med([r['rss_idle'] / mib for r in g]))} -> {num(med([r['rss_after'] / mib for r in g]))} | "
                      f"{sum(r['r'].get('errors', 0) for r in g)}/{sum(r['r'].get('total_calls', 0) for r in g)} |")
    bad = [r for r in rows if r.get("fatal")]
    if bad:
        print("\n### What did not start\n")
        for r in bad:
            print(f"- {r['peer']} {r.get('mode')} {r.get('upstream')}: {str(r['fatal'])[:300]}")
