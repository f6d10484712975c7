/** Small pieces that every view uses. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../lib/api";
import { t } from "../lib/i18n";
import { isObject } from "../lib/schema";
import type { Why } from "../lib/rights";
import { dropToast, toast, toasts } from "../lib/store";
import { Icon, type IconName } from "./icon";

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return <div class="empty"><p class="empty-title">{title}</p>{children}</div>;
}

/** A failure as people read it: what happened, and what to try. */
export function Fault({ error, again }: { error: unknown; again?: () => void }) {
  const fault = error instanceof ApiError ? error : null;
  const text = fault?.code === "UNREACHABLE" ? t("fault.unreachable") : error instanceof Error ? error.message : String(error);
  const hint = fault?.code === "UNREACHABLE" ? t("fault.unreachable.hint") : fault?.hint;
  return (
    <div class="fault" role="alert">
      <p class="fault-text">{text}</p>
      {hint && <p class="fault-hint">{hint}</p>}
      {isObject(fault?.details) && fault.details.retryable === true && <p class="fault-hint">{t("fault.retryable")}</p>}
      {fault !== null && fault.code !== "UNREACHABLE" && <p class="fault-code mono">{fault.code}</p>}
      {again && <button type="button" onClick={again}>{t("again")}</button>}
    </div>
  );
}

export function Loading({ what }: { what?: string }) {
  return <p class="loading" role="status">{what ?? t("loading")}</p>;
}

export function Dialog({ title, onClose, children, wide = false }: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = ref.current;
    if (dialog && !dialog.open) dialog.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog ref={ref} class={wide ? "wide" : ""} aria-label={title} onCancel={(event) => { event.preventDefault(); onClose(); }} onClick={(event) => { if (event.target === ref.current) onClose(); }}>
      <div class="dialog-body">
        <div class="dialog-head">
          <h2>{title}</h2>
          <IconButton icon="close" label={t("close")} onClick={onClose} />
        </div>
        {children}
      </div>
    </dialog>
  );
}

export function IconButton({ icon, label, onClick, disabled = false, kind = "", why = null }: { icon: IconName; label: string; onClick: () => void; disabled?: boolean; kind?: string; why?: Why }) {
  return <button type="button" class={`icon-button ${kind}`} aria-label={label} {...refusing(why, onClick)} title={why ?? label} disabled={disabled}><Icon name={icon} /></button>;
}

/** A button that one may not press stays in reach and says why: on hover, to a screen reader, and when it is pressed. */
export function refusing(why: Why, onClick: () => void): { onClick: () => void; title?: string; "aria-disabled"?: true } {
  return why === null ? { onClick } : { onClick: () => toast("note", why), title: why, "aria-disabled": true };
}

/** Copies a text and says so. */
export function CopyButton({ text, label }: { text: string; label?: string }) {
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    } catch {
      toast("bad", t("copy.refused"), t("copy.refused.hint"));
    }
  };
  return <button type="button" class="quiet" onClick={copy}><Icon name="copy" /><span aria-live="polite">{isDone ? t("copy.done") : label ?? t("copy")}</span></button>;
}

export function Toasts() {
  return (
    <div class="toasts" role="region" aria-label={t("toasts")}>
      <div aria-live="polite">
        {toasts.value.map((one) => (
          <div key={one.id} class={`toast ${one.kind}`}>
            <div><p>{one.text}</p>{one.hint && <p class="toast-hint">{one.hint}</p>}</div>
            <IconButton icon="close" label={t("close")} onClick={() => dropToast(one.id)} />
          </div>
        ))}
      </div>
    </div>
  );
}

/** Tabs as the ARIA practices describe them: arrows move, one is in the tab order. */
export function Tabs<T extends string>({ label, tabs, value, onChange }: { label: string; tabs: { id: T; name: string; count?: number }[]; value: T; onChange: (id: T) => void }) {
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const at = tabs.findIndex((tab) => tab.id === value);
    const next = tabs[(at + step + tabs.length) % tabs.length]!;
    onChange(next.id);
    (event.currentTarget as HTMLElement).querySelector<HTMLElement>(`[data-tab="${next.id}"]`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
      {tabs.map((tab) => (
        <button key={tab.id} type="button" role="tab" data-tab={tab.id} id={`tab-${tab.id}`} aria-controls={`panel-${tab.id}`} aria-selected={tab.id === value} tabIndex={tab.id === value ? 0 : -1} onClick={() => onChange(tab.id)}>
          {tab.name}{tab.count !== undefined && <span class="count">{tab.count}</span>}
        </button>
      ))}
    </div>
  );
}

export function Panel({ id, children }: { id: string; children: ComponentChildren }) {
  return <div role="tabpanel" id={`panel-${id}`} aria-labelledby={`tab-${id}`} tabIndex={0} class="panel">{children}</div>;
}

/** Text of strangers, as text: line breaks kept, links not followed, long ones folded. */
export function Prose({ text, most = 600 }: { text: string; most?: number }) {
  const [isWhole, setWhole] = useState(false);
  const isLong = text.length > most;
  return (
    <div class="prose">
      {isLong && !isWhole ? `${text.slice(0, most)}…` : text}
      {isLong && <button type="button" class="link" onClick={() => setWhole(!isWhole)}>{isWhole ? t("less") : t("more")}</button>}
    </div>
  );
}

/** What a list is narrowed down by. On a phone it is folded behind one button, so that the list is seen first. */
export function FilterForm({ label, isActive, children }: { label: string; isActive: boolean; children: ComponentChildren }) {
  const [isOpen, setOpen] = useState(isActive);
  return (
    <>
      <button type="button" class="filter-fold" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>{t("filter.show")}</button>
      <form class={`filter ${isOpen ? "" : "folded"}`} role="search" aria-label={label} onSubmit={(event) => event.preventDefault()}>{children}</form>
    </>
  );
}
