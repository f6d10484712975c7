/** What the keys do. */

import { type Key, t } from "../lib/i18n";
import { Dialog } from "../part/basics";

const KEYS: [string[], Key][] = [
  [["/"], "help.search"],
  [["?"], "help.help"],
  [["g", "o"], "nav.overview"],
  [["g", "t"], "nav.try"],
  [["g", "c"], "nav.calls"],
  [["g", "h"], "nav.charts"],
  [["g", "b"], "nav.board"],
  [["j", "k"], "help.walk"],
  [["n"], "help.new"],
  [["Ctrl", "Enter"], "help.send"],
  [["Esc"], "help.close"],
];

export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title={t("help")} onClose={onClose}>
      <dl class="keys">
        {KEYS.map(([keys, meaning]) => <div key={meaning}><dt>{keys.map((key, at) => <kbd key={at}>{key}</kbd>)}</dt><dd>{t(meaning)}</dd></div>)}
      </dl>
    </Dialog>
  );
}
