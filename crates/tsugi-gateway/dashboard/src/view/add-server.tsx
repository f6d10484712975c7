/** A new server while the gateway runs. */

import { useState } from "preact/hooks";
import { ask, session } from "../lib/api";
import { t } from "../lib/i18n";
import { go, to } from "../lib/route";
import { keptHint, loadOverview, toast } from "../lib/store";
import type { JsonObject, Kept } from "../lib/types";
import { splitWords } from "../lib/words";
import { Dialog, Fault } from "../part/basics";

type How = "command" | "url";

export function AddServer({ onClose }: { onClose: () => void }) {
  const [how, setHow] = useState<How>(session.value?.allowCommands === false ? "url" : "command");
  const [name, setName] = useState("");
  const [line, setLine] = useState("");
  const [extra, setExtra] = useState("");
  const [fault, setFault] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setFault(null);
    try {
      const { kept } = await ask<{ kept?: Kept }>("/servers", "POST", definition(how, name, line, extra));
      toast("good", t("add.done", { name }), keptHint("add", kept));
      await loadOverview();
      onClose();
      go(to("servers", name));
    } catch (error) {
      setFault(error);
      setBusy(false);
    }
  };
  return (
    <Dialog title={t("add")} onClose={onClose}>
      {session.value?.allowAdd === false ? <Refused /> : (
        <form class="stack" onSubmit={submit}>
          <div class="field">
            <label for="add-name">{t("add.name")}</label>
            <input id="add-name" required pattern="[A-Za-z0-9._\-]{1,64}" autocomplete="off" value={name} onInput={(event) => setName(event.currentTarget.value)} autofocus />
            <span class="field-help">{t("add.name.help")}</span>
          </div>
          <fieldset class="field choice-row">
            <legend>{t("add.how")}</legend>
            <label class="check"><input type="radio" name="how" checked={how === "command"} disabled={session.value?.allowCommands === false} onChange={() => setHow("command")} />{t("add.command")}</label>
            <label class="check"><input type="radio" name="how" checked={how === "url"} onChange={() => setHow("url")} />{t("add.url")}</label>
          </fieldset>
          {session.value?.allowCommands === false && <p class="field-help">{t("add.noCommands")} <code>gateway: {"{ adminApi: { allowCommands: true } }"}</code></p>}
          <div class="field">
            <label for="add-line">{how === "command" ? t("add.line") : t("add.address")}</label>
            <input id="add-line" class="mono" required type={(how === "url" ? "url" : "text") as "text"} autocomplete="off" spellcheck={false} placeholder={how === "command" ? "uvx mcp-server-time" : "https://example.com/mcp"} value={line} onInput={(event) => setLine(event.currentTarget.value)} />
            {how === "command" && <span class="field-help">{t("add.line.help")}</span>}
          </div>
          <div class="field">
            <label for="add-extra">{how === "command" ? t("add.env") : t("add.headers")}</label>
            <textarea id="add-extra" class="mono" rows={3} spellcheck={false} placeholder={how === "command" ? "TZ=Asia/Tokyo" : "Authorization: Bearer …"} value={extra} onInput={(event) => setExtra(event.currentTarget.value)} />
            <span class="field-help">{t("add.extra.help")}</span>
          </div>
          {fault !== null && <Fault error={fault} />}
          <div class="actions"><button type="submit" class="primary" disabled={isBusy}>{isBusy ? t("add.busy") : t("add")}</button><button type="button" onClick={onClose}>{t("cancel")}</button></div>
        </form>
      )}
    </Dialog>
  );
}

function Refused() {
  return <div class="stack"><p>{t("add.refused")}</p><pre class="code">{"gateway:\n  adminApi: { enabled: true }"}</pre></div>;
}

function definition(how: How, name: string, line: string, extra: string): JsonObject {
  const lines = extra.split("\n").map((one) => one.trim()).filter((one) => one !== "");
  const pairs = (by: string) => Object.fromEntries(lines.map((one) => [one.split(by, 1)[0]!.trim(), one.slice(one.indexOf(by) + 1).trim()]));
  if (how === "url") return { name, url: line.trim(), ...(lines.length > 0 ? { headers: pairs(":") } : {}) };
  const [command = "", ...args] = splitWords(line);
  return { name, command, args, ...(lines.length > 0 ? { env: pairs("=") } : {}) };
}
