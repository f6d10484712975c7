/** What of a server's sandbox truly holds, part by part, in words. */

import { t, word } from "../lib/i18n";
import { isObject } from "../lib/schema";
import type { Json } from "../lib/types";

interface Part {
  name: string;
  state: string;
  reason: string | null;
}

function parts(report: Json): Part[] {
  if (!isObject(report)) return [];
  return Object.entries(report).flatMap(([name, part]) => (isObject(part) && typeof part.state === "string" ? [{ name, state: part.state, reason: typeof part.reason === "string" ? part.reason : null }] : []));
}

const TONES: Record<string, string> = { enforced: "good", partial: "warn", notEnforced: "bad" };

export function Sandbox({ report }: { report: Json }) {
  const all = parts(report);
  const asked = all.filter((part) => part.state !== "notAsked");
  const idle = all.filter((part) => part.state === "notAsked").map((part) => word("sandbox.part", part.name));
  const tier = isObject(report) && typeof report.tier === "string" ? report.tier : null;
  return (
    <>
      {asked.length === 0 ? <p class="note">{t("sandbox.off")}</p> : (
        <ul class="sandbox">{asked.map((part) => <li key={part.name}><span>{word("sandbox.part", part.name)}</span><span class={`chip ${TONES[part.state] ?? "plain"}`}>{word("sandbox.state", part.state)}</span>{part.reason && <span class="sub">{part.reason}</span>}</li>)}</ul>
      )}
      {asked.length > 0 && idle.length > 0 && <p class="sub">{t("sandbox.idle", { parts: idle.join(", ") })}</p>}
      {tier && <p class="sub">{t("sandbox.tier", { tier })}</p>}
    </>
  );
}
