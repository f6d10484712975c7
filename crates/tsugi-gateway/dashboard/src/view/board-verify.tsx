/** A press that proves the history: every record is rebuilt from its events, and every chain of hashes is followed. */

import { useState } from "preact/hooks";
import { number } from "../lib/format";
import { t } from "../lib/i18n";
import { look } from "../lib/pm";
import { Fault } from "../part/basics";

interface Verification {
  records: number;
  events: number;
  problems: string[];
  more_problems: number;
}

export function Verify() {
  const [found, setFound] = useState<Verification | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const verify = async () => {
    setBusy(true);
    await look<Verification>("verify").then((told) => { setFound(told); setFault(null); }, setFault);
    setBusy(false);
  };
  return (
    <div class="verify">
      <button type="button" disabled={isBusy} onClick={verify}>{isBusy ? t("verify.busy") : t("verify")}</button>
      <div role="status">
        {found !== null && found.problems.length === 0 && <p class="good-text">{t("verify.sound", { records: number(found.records), events: number(found.events) })}</p>}
        {found !== null && found.problems.length > 0 && <div class="notice bad"><p><b>{t("verify.bad", { n: number(found.problems.length + found.more_problems) })}</b></p><ul>{found.problems.map((one) => <li key={one} class="mono small">{one}</li>)}</ul></div>}
      </div>
      {fault !== null && <Fault error={fault} />}
    </div>
  );
}
