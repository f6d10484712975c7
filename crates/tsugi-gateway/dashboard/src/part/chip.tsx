/** Words with a meaning that colour only underlines: states, outcomes, hints of a tool. */

import type { ComponentChildren } from "preact";
import { t, word } from "../lib/i18n";
import type { Outcome, Tool } from "../lib/types";

export type Tone = "good" | "warn" | "bad" | "quiet" | "busy" | "plain";

export function stateTone(state: string): Tone {
  switch (state) {
    case "connected": return "good";
    case "connecting":
    case "initializing":
    case "draining": return "busy";
    case "needs-sign-in":
    case "reconnecting": return "warn";
    case "failed": return "bad";
    default: return "quiet";
  }
}

export function outcomeTone(outcome: Outcome): Tone {
  switch (outcome) {
    case "ok": return "good";
    case "tool-error": return "warn";
    case "failed": return "bad";
    case "input-required": return "busy";
    default: return "quiet";
  }
}

export function Chip({ tone, children, title }: { tone: Tone; children: ComponentChildren; title?: string }) {
  return <span class={`chip ${tone}`} title={title}>{children}</span>;
}

export function State({ state }: { state: string }) {
  return <span class={`state ${stateTone(state)}`}><span class="dot" aria-hidden="true" />{word("state", state)}</span>;
}

export function OutcomeWord({ outcome }: { outcome: Outcome }) {
  return <span class={`state ${outcomeTone(outcome)}`}><span class="dot" aria-hidden="true" />{word("outcome", outcome)}</span>;
}

export function Hints({ tool }: { tool: Tool }) {
  const hints = tool.annotations ?? {};
  return (
    <>
      {hints.readOnlyHint && <Chip tone="good" title={t("hint.claims")}>{t("hint.readOnly")}</Chip>}
      {hints.readOnlyHint !== true && hints.destructiveHint && <Chip tone="bad" title={t("hint.claims")}>{t("hint.destructive")}</Chip>}
      {hints.idempotentHint && <Chip tone="plain" title={t("hint.claims")}>{t("hint.idempotent")}</Chip>}
      {hints.openWorldHint && <Chip tone="plain" title={t("hint.claims")}>{t("hint.openWorld")}</Chip>}
    </>
  );
}
