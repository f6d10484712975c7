/** A JSON value to look into: branches open on demand, long lists in pieces. */

import { useState } from "preact/hooks";
import { t } from "../lib/i18n";
import { isObject } from "../lib/schema";
import type { Json } from "../lib/types";

const PIECE = 100;

export function Tree({ value, name, open = true, depth = 0 }: { value: Json; name?: string; open?: boolean; depth?: number }) {
  const [isOpen, setOpen] = useState(open && depth < 3);
  const [shown, setShown] = useState(PIECE);
  if (!Array.isArray(value) && !isObject(value)) return <Leaf name={name} value={value} />;
  const entries: [string, Json][] = Array.isArray(value) ? value.map((one, at) => [String(at), one]) : Object.entries(value);
  const [left, right] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (entries.length === 0) return <div class="leaf"><Name name={name} /><span class="punct">{left}{right}</span></div>;
  return (
    <details class="tree" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary><Name name={name} /><span class="punct">{left}</span><span class="count">{entries.length}</span><span class="punct">{right}</span></summary>
      {isOpen && (
        <div class="branch">
          {entries.slice(0, shown).map(([key, one]) => <Tree key={key} name={key} value={one} depth={depth + 1} open={open} />)}
          {entries.length > shown && <button type="button" class="link" onClick={() => setShown(shown + PIECE)}>{t("tree.more", { n: entries.length - shown })}</button>}
        </div>
      )}
    </details>
  );
}

function Name({ name }: { name: string | undefined }) {
  return name === undefined ? null : <span class="name">{name}<span class="punct">: </span></span>;
}

function Leaf({ name, value }: { name: string | undefined; value: Json }) {
  const kind = value === null ? "null" : typeof value;
  return <div class="leaf"><Name name={name} /><span class={`value ${kind}`}>{typeof value === "string" ? value : JSON.stringify(value)}</span></div>;
}
