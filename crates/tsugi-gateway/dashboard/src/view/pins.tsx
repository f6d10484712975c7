/** What differs from its pin: the pinned and the offered definition side by side, and the button that accepts. */

import { useEffect, useState } from "preact/hooks";
import { t, word } from "../lib/i18n";
import { acceptPin, type Difference, loadPins, type Piece, pins } from "../lib/pins";
import { whyNotOrder } from "../lib/rights";
import { toastError } from "../lib/store";
import { Fault, Loading } from "../part/basics";

export function Pins() {
  const [error, setError] = useState<unknown>(null);
  const load = () => { setError(null); loadPins().catch(setError); };
  useEffect(load, []);
  if (error !== null) return <Fault error={error} again={load} />;
  if (pins.value === null) return <Loading />;
  const { file, differences } = pins.value;
  return (
    <section class="pins">
      <h1>{t("pins")}</h1>
      <p class="lead">{file === null ? t("pins.none") : differences.length === 0 ? t("pins.clean", { file }) : t("pins.note", { n: differences.length, file })}</p>
      {differences.map((one) => <Card key={`${one.server}/${one.kind}/${one.name}`} one={one} />)}
    </section>
  );
}

function Card({ one }: { one: Difference }) {
  const [busy, setBusy] = useState(false);
  const why = whyNotOrder();
  const accept = () => { setBusy(true); acceptPin(one).catch(toastError).finally(() => setBusy(false)); };
  const title = one.name === "" ? `${one.server}/${one.kind}` : `${one.server}/${one.name}`;
  return (
    <article class={`pin-card effect-${one.effect}`}>
      <header>
        <h2>{title}</h2>
        <span class={`chip ${one.change}`}>{word("pins.change", one.change)}</span>
        <span class="chip">{one.kind}</span>
        <span class="chip">{word("pins.effect", one.effect)}</span>
        <button type="button" class="primary" disabled={busy || why !== null} title={why ?? undefined} onClick={accept}>{t("pins.accept")}</button>
      </header>
      {one.claimedFrom && <p class="notice warn">{t("pins.claimed", { server: one.claimedFrom })}</p>}
      {one.findings.map((finding) => <p key={finding.rule + finding.place} class="notice warn">{t("pins.finding", { what: finding.what, place: finding.place })} <code>{finding.excerpt}</code></p>)}
      {one.members.map((member) => (
        <div key={member.member} class="pin-member">
          {member.member !== "" && <h3>{member.member}</h3>}
          <div class="pin-sides">
            <Side label={t("pins.old")} side="old" pieces={member.pieces} />
            <Side label={t("pins.new")} side="new" pieces={member.pieces} />
          </div>
        </div>
      ))}
    </article>
  );
}

/** One side: what both have, and its own words marked. */
function Side({ label, side, pieces }: { label: string; side: "old" | "new"; pieces: Piece[] }) {
  const own = pieces.filter((piece) => piece.side === "same" || piece.side === side);
  return (
    <figure>
      <figcaption>{label}</figcaption>
      <pre>{own.length === 0 ? "–" : own.map((piece, index) => piece.side === "same" ? piece.text : side === "old" ? <del key={index}>{piece.text}</del> : <ins key={index}>{piece.text}</ins>)}</pre>
    </figure>
  );
}
