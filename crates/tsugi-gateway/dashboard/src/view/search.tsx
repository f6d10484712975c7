/** Finds a place, a server or a tool by a part of its name. What servers offer is asked for only when somebody searches. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { session } from "../lib/api";
import { catalogs, loadCatalogs } from "../lib/catalog";
import { t } from "../lib/i18n";
import { to } from "../lib/route";
import { goToForm } from "../lib/shortcut";
import { serverNames } from "../lib/store";
import { Dialog } from "../part/basics";

interface Hit {
  label: string;
  kind: string;
  detail: string;
  href: string;
}

const MOST_HITS = 40;

export function Search({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  useEffect(() => { void loadCatalogs(serverNames.value); }, []);
  const hits = useMemo(() => find(text), [text, catalogs.value]);
  const open = (hit: Hit | undefined) => { if (hit) { onClose(); goToForm(hit.href); } };
  const key = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setAt(Math.max(0, Math.min(hits.length - 1, at + step)));
    } else if (event.key === "Enter") {
      event.preventDefault();
      open(hits[at]);
    }
  };
  return (
    <Dialog title={t("search")} onClose={onClose} wide>
      <input class="search-input" role="combobox" aria-label={t("search.what")} aria-expanded="true" aria-controls="hits" aria-activedescendant={hits.length > 0 ? `hit-${at}` : undefined} placeholder={t("search.what")} autocomplete="off" value={text} onInput={(event) => { setText(event.currentTarget.value); setAt(0); }} onKeyDown={key} autofocus />
      <ul id="hits" class="hits" role="listbox" aria-label={t("search.hits")}>
        {hits.map((hit, index) => (
          <li key={hit.href} id={`hit-${index}`} role="option" aria-selected={index === at} onClick={() => open(hit)} onMouseMove={() => setAt(index)} ref={(node) => { if (index === at) node?.scrollIntoView({ block: "nearest" }); }}>
            <span class="hit-kind">{hit.kind}</span><span class="strong mono">{hit.label}</span><span class="hit-detail">{hit.detail}</span>
          </li>
        ))}
      </ul>
      <p class="note" role="status">{hits.length === 0 ? t("search.none") : ""}</p>
    </Dialog>
  );
}

function find(text: string): Hit[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (hit: Hit) => words.every((word) => `${hit.label} ${hit.detail}`.toLowerCase().includes(word));
  const first = (hit: Hit) => (words.length > 0 && hit.label.toLowerCase().startsWith(words[0]!) ? 0 : 1);
  return [...places(), ...serverHits(), ...toolHits()].filter(fits).sort((one, other) => first(one) - first(other)).slice(0, MOST_HITS);
}

function places(): Hit[] {
  const all = [[t("nav.overview"), "#/"], [t("nav.try"), "#/try"], [t("nav.calls"), "#/calls"], [t("nav.charts"), "#/charts"]] as [string, string][];
  if (session.value?.pm) all.push([t("nav.board"), "#/board"]);
  return all.map(([label, href]) => ({ label, kind: t("search.place"), detail: "", href }));
}

function serverHits(): Hit[] {
  return serverNames.value.map((name) => ({ label: name, kind: t("col.server"), detail: "", href: to("servers", name) }));
}

function toolHits(): Hit[] {
  return Object.entries(catalogs.value).flatMap(([server, catalog]) => [
    ...catalog.tools.map((tool) => ({ label: tool.name, kind: t("kind.tool"), detail: [server, tool.title ?? tool.description?.slice(0, 80)].filter(Boolean).join(" · "), href: to("try", server, "tool", tool.name) })),
    ...catalog.prompts.map((prompt) => ({ label: prompt.name, kind: t("kind.prompt"), detail: server, href: to("try", server, "prompt", prompt.name) })),
    ...catalog.resources.map((resource) => ({ label: resource.name, kind: t("kind.resource"), detail: `${server} · ${resource.uri}`, href: to("try", server, "resource", resource.uri) })),
  ]);
}
