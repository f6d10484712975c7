/** The door, where the gateway wants to know who comes. */

import { useState } from "preact/hooks";
import { ApiError, session, signIn } from "../lib/api";
import { lang, setLang, t } from "../lib/i18n";
import { Mark } from "../part/icon";

export function SignIn() {
  const [key, setKey] = useState("");
  const [fault, setFault] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setFault(null);
    try {
      await signIn(key);
    } catch (error) {
      setFault(error instanceof ApiError && error.status === 401 ? t("signIn.wrong") : (error as Error).message);
    }
    setBusy(false);
  };
  return (
    <main class="alone sign-in">
      <div class="door">
        <p class="brand"><Mark /><span class="brand-name">tsugi</span><span class="brand-version">{session.value?.version}</span></p>
        <h1>{t("signIn.title")}</h1>
        <p class="note">{t("signIn.note")}</p>
        <form onSubmit={submit}>
          <label for="key">{t("signIn.key")}</label>
          <input id="key" type="password" autocomplete="current-password" required value={key} aria-invalid={fault !== null || undefined} aria-describedby={fault === null ? undefined : "key-fault"} onInput={(event) => setKey(event.currentTarget.value)} autofocus />
          <div role="alert">{fault && <p class="field-problem" id="key-fault">{fault}</p>}</div>
          <button type="submit" class="primary" disabled={isBusy || key === ""}>{t("signIn")}</button>
        </form>
        <p class="note small">{t("signIn.how")} <code>tsugi key add NAME</code></p>
        <button type="button" class="link" lang={lang.value === "en" ? "ja" : "en"} onClick={() => setLang(lang.value === "en" ? "ja" : "en")}>{lang.value === "en" ? "日本語" : "English"}</button>
      </div>
    </main>
  );
}
