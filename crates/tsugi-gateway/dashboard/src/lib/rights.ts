/** What the person at the page may do; where they may not, the reason in words, for the button that refuses. */

import { isAdmin, session } from "./api";
import { t } from "./i18n";

export type Why = string | null;

/** Start, stop, add and remove servers. */
export function whyNotOrder(): Why {
  if (isAdmin()) return null;
  return session.value?.readOnly ? t("rights.readOnly") : t("rights.admin");
}

/** Call tools, read resources, render prompts. */
export function whyNotCall(): Why {
  return session.value?.readOnly ? t("rights.readOnly") : null;
}

/** Change something on the board. */
export function whyNotWrite(): Why {
  return whyNotOrder();
}
