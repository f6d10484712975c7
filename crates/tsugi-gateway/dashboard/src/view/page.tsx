/** The frame of the page: who you are, where you are, and the view of that place. */

import { effect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { isAdmin, session, signOut } from "../lib/api";
import { type Key, lang, setLang, t } from "../lib/i18n";
import { followNeeds, waiting } from "../lib/needs";
import { loadPins, pins } from "../lib/pins";
import { route, to } from "../lib/route";
import { attention, forget, link, loadOverview, overview, servers, toastError } from "../lib/store";
import { closeStream, followVisibility, openStream } from "../lib/stream";
import { nextTheme, theme } from "../lib/theme";
import { helpOpen, listenForKeys, searchOpen } from "../lib/shortcut";
import { Fault, IconButton, Loading, Toasts } from "../part/basics";
import { Icon, type IconName, Mark } from "../part/icon";
import { Audit } from "./audit";
import { Board } from "./board";
import { Calls } from "./calls";
import { Charts } from "./charts";
import { Help } from "./help";
import { Overview } from "./overview";
import { Pins } from "./pins";
import { Search } from "./search";
import { Server } from "./server";
import { SignIn } from "./sign-in";
import { TryIt } from "./try";

export function Page({ fault }: { fault: unknown }) {
  useEffect(() => effect(() => { document.documentElement.lang = lang.value; }), []);
  if (fault !== null) return <main class="alone"><Fault error={fault} again={() => location.reload()} /></main>;
  if (session.value === null) return <main class="alone"><Loading /></main>;
  if (session.value.authRequired && !session.value.signedIn) return <><SignIn /><Toasts /></>;
  return <Shell />;
}

function Shell() {
  const main = useRef<HTMLElement>(null);
  const path = route.value.parts.join("/");
  const isFirst = useRef(true);
  useEffect(() => {
    // The first look came with the session; somebody who signed in later has none yet.
    if (servers.value === null) void loadOverview();
    // For the mark beside the place; the view says what went wrong.
    if (isAdmin()) loadPins().catch(() => undefined);
    openStream();
    const stops = [listenForKeys(), followVisibility(), followNeeds(), closeStream, forget];
    return () => stops.forEach((stop) => stop());
  }, [session.value?.name]);
  // Who listens to the page hears where they are after each step; who looks at it begins at the top.
  useEffect(() => {
    if (isFirst.current) { isFirst.current = false; return; }
    scrollTo(0, 0);
    main.current?.focus({ preventScroll: true });
  }, [path]);
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={() => main.current?.focus()}>{t("skip")}</button>
      <Rail />
      <main ref={main} id="main" tabIndex={-1}>
        <LinkNotice />
        {session.value?.readOnly && <p class="notice read-only">{t("rights.readOnly.long")}</p>}
        <View />
      </main>
      <Toasts />
      {searchOpen.value && <Search onClose={() => (searchOpen.value = false)} />}
      {helpOpen.value && <Help onClose={() => (helpOpen.value = false)} />}
    </div>
  );
}

function View() {
  const [first = "", second, third, fourth] = route.value.parts;
  useEffect(() => { document.title = [second, titleOf(first), "tsugi"].filter(Boolean).join(" · "); }, [first, second, lang.value]);
  switch (first) {
    case "": return <Overview />;
    case "servers": return second === undefined ? <Overview /> : <Server key={second} name={second} />;
    case "try": return <TryIt server={second} kind={third} name={fourth} />;
    case "calls": return <Calls selected={second} />;
    case "charts": return <Charts />;
    case "audit": return <Audit />;
    case "pins": return <Pins />;
    case "board": return <Board selected={second} />;
    default: return <Overview />;
  }
}

function titleOf(first: string): string {
  const place = PLACES.find((one) => one.id === (first === "servers" ? "" : first));
  return t(place?.name ?? "nav.overview");
}

const PLACES: { id: string; name: Key; icon: IconName; keys: string }[] = [
  { id: "", name: "nav.overview", icon: "overview", keys: "g o" },
  { id: "try", name: "nav.try", icon: "play", keys: "g t" },
  { id: "calls", name: "nav.calls", icon: "calls", keys: "g c" },
  { id: "charts", name: "nav.charts", icon: "charts", keys: "g h" },
  { id: "audit", name: "nav.audit", icon: "audit", keys: "g a" },
  { id: "pins", name: "nav.pins", icon: "pin", keys: "g p" },
  { id: "board", name: "nav.board", icon: "board", keys: "g b" },
];

function Rail() {
  const here = route.value.parts[0] ?? "";
  const places = PLACES.filter((place) => (place.id !== "board" || session.value?.pm) && (place.id !== "audit" || session.value?.audit) && (place.id !== "pins" || isAdmin()));
  return (
    <header class="rail">
      <a class="brand" href="#/"><Mark /><span class="brand-name">tsugi</span><span class="brand-version">{session.value?.version}</span></a>
      <button type="button" class="search-button" onClick={() => (searchOpen.value = true)}><Icon name="search" /><span>{t("search")}</span><kbd>/</kbd></button>
      <nav aria-label={t("nav")}>
        {places.map((place) => (
          <a key={place.id} href={to(...(place.id === "" ? [] : [place.id]))} aria-current={here === place.id || (place.id === "" && here === "servers") ? "page" : undefined}>
            <Icon name={place.icon} /><span>{t(place.name)}</span>
            {place.id === "" && attention.value.length > 0 && <span class="badge" aria-label={t("overview.attention.count", { n: attention.value.length })}>{attention.value.length}</span>}
            {place.id === "pins" && (pins.value?.differences.length ?? 0) > 0 && <span class="badge" aria-label={t("pins.count", { n: pins.value!.differences.length })}>{pins.value!.differences.length}</span>}
            {place.id === "board" && waiting.value > 0 && <span class="badge quiet" aria-label={t("board.needs.count", { n: waiting.value })}>{waiting.value}</span>}
            <kbd aria-hidden="true">{place.keys}</kbd>
          </a>
        ))}
      </nav>
      <div class="rail-foot">
        <LinkState />
        <div class="tools">
          <IconButton icon={theme.value === "system" ? "system" : theme.value === "dark" ? "moon" : "sun"} label={`${t("theme")}: ${t(`theme.${theme.value}`)}`} onClick={nextTheme} />
          <button type="button" class="lang" lang={lang.value === "en" ? "ja" : "en"} aria-label={lang.value === "en" ? "日本語で表示" : "Show in English"} onClick={() => setLang(lang.value === "en" ? "ja" : "en")}>{lang.value === "en" ? "日本語" : "English"}</button>
          <IconButton icon="help" label={t("help")} onClick={() => (helpOpen.value = true)} />
          {session.value?.authRequired && <IconButton icon="out" label={t("signOut")} onClick={() => signOut().catch(toastError)} />}
        </div>
        {session.value?.authRequired && <p class="who">{session.value.name} · {isAdmin() ? t("role.admin") : session.value.readOnly ? t("role.reader") : t("role.user")}</p>}
      </div>
    </header>
  );
}

function LinkState() {
  const words = { opening: "link.opening", live: "link.live", lost: "link.lost", closing: "link.closing" } as const;
  return <p class={`link-state ${link.value}`} title={overview.value?.listen.join(", ")}><span class="dot" aria-hidden="true" />{t(words[link.value])}</p>;
}

function LinkNotice() {
  const text = link.value === "lost" ? t("link.lost.long") : link.value === "closing" ? t("link.closing.long") : null;
  return <div role="status">{text && <p class="notice warn">{text}</p>}</div>;
}
