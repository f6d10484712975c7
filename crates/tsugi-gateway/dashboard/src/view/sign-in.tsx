/** The door, where the gateway wants to know who comes. */

import { useState } from "preact/hooks";
import { ApiError, providerLogout, session, signIn } from "../lib/api";
import { lang, setLang, t } from "../lib/i18n";
import { go, route } from "../lib/route";
import type { Provider } from "../lib/types";
import { Mark } from "../part/icon";

/** How a sign-in through a provider can end; the gateway names it in the address. */
const PROBLEMS = ["again", "denied", "role", "provider"] as const;

function problemInAddress() {
  const [view, name] = route.value.parts;
  return view === "sign-in" ? PROBLEMS.find((one) => one === name) : undefined;
}

/** The way to a provider, and from there back to the view that was wanted. */
function address({ address }: Provider): string {
  const view = route.value.parts[0] === "sign-in" ? "" : location.hash.replace(/^#/, "");
  return view === "" ? address : `${address}?view=${encodeURIComponent(view)}`;
}

function Providers({ providers }: { providers: Provider[] }) {
  return (
    <>
      <div class="providers">
        {providers.map((one) => <a key={one.address} class="button primary" href={address(one)}>{t("signIn.with", { name: one.label })}</a>)}
      </div>
      <p class="or">{t("signIn.or")}</p>
    </>
  );
}

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
      if (route.value.parts[0] === "sign-in") go("#/");
    } catch (error) {
      setFault(error instanceof ApiError && error.status === 401 ? t("signIn.wrong") : (error as Error).message);
    }
    setBusy(false);
  };
  const providers = session.value?.providers ?? [];
  const problem = problemInAddress();
  return (
    <main class="alone sign-in">
      <div class="door">
        <p class="brand"><Mark /><span class="brand-name">tsugi</span><span class="brand-version">{session.value?.version}</span></p>
        <h1>{t("signIn.title")}</h1>
        <div role="alert">{problem && <p class="notice bad">{t(`signIn.problem.${problem}`)}</p>}</div>
        {providerLogout.value && <p class="notice read-only" role="status">{t("signIn.out")} <a href={providerLogout.value}>{t("signIn.out.provider")}</a></p>}
        <p class="note">{t(providers.length > 0 ? "signIn.note.providers" : "signIn.note")}</p>
        {providers.length > 0 && <Providers providers={providers} />}
        <form onSubmit={submit}>
          <label for="key">{t("signIn.key")}</label>
          <input id="key" type="password" autocomplete="current-password" required value={key} aria-invalid={fault !== null || undefined} aria-describedby={fault === null ? undefined : "key-fault"} onInput={(event) => setKey(event.currentTarget.value)} autofocus={providers.length === 0} />
          <div role="alert">{fault && <p class="field-problem" id="key-fault">{fault}</p>}</div>
          <button type="submit" class={providers.length > 0 ? "" : "primary"} disabled={isBusy || key === ""}>{t("signIn")}</button>
        </form>
        <p class="note small">{t("signIn.how")} <code>tsugi key add NAME</code></p>
        <button type="button" class="link" lang={lang.value === "en" ? "ja" : "en"} onClick={() => setLang(lang.value === "en" ? "ja" : "en")}>{lang.value === "en" ? "日本語" : "English"}</button>
      </div>
    </main>
  );
}
