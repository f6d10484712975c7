/** Start, stop, restart and remove, with the outcome said aloud. */

import { useState } from "preact/hooks";
import { ask } from "../lib/api";
import { milliseconds } from "../lib/format";
import { t } from "../lib/i18n";
import { whyNotOrder } from "../lib/rights";
import { go } from "../lib/route";
import { keptHint, toast, toastError } from "../lib/store";
import type { Kept } from "../lib/types";
import { IconButton } from "../part/basics";

type Order = "start" | "stop" | "restart";

export function Orders({ name, state, canRemove = false }: { name: string; state: string; canRemove?: boolean }) {
  const [busy, setBusy] = useState<Order | "remove" | null>(null);
  const why = whyNotOrder();
  const isUp = state !== "disconnected" && state !== "failed";
  const give = async (order: Order) => {
    setBusy(order);
    const began = performance.now();
    try {
      await ask(`/servers/${encodeURIComponent(name)}/${order}`, "POST", {});
      toast("good", t(`order.${order}.done`, { name, took: milliseconds(performance.now() - began) }));
    } catch (error) {
      toastError(error);
    }
    setBusy(null);
  };
  const remove = async () => {
    if (!confirm(t("order.remove.sure", { name }))) return;
    setBusy("remove");
    try {
      const { kept } = await ask<{ kept?: Kept }>(`/servers/${encodeURIComponent(name)}`, "DELETE");
      toast("good", t("order.remove.done", { name }), keptHint("order.remove", kept));
      go("#/");
    } catch (error) {
      toastError(error);
    }
    setBusy(null);
  };
  return (
    <div class="orders" aria-busy={busy !== null}>
      {!isUp && <IconButton icon="play" label={t("order.start", { name })} why={why} disabled={busy !== null} onClick={() => give("start")} />}
      {isUp && <IconButton icon="restart" label={t("order.restart", { name })} why={why} disabled={busy !== null} onClick={() => give("restart")} kind={busy === "restart" ? "turning" : ""} />}
      {isUp && <IconButton icon="stop" label={t("order.stop", { name })} why={why} disabled={busy !== null} onClick={() => give("stop")} />}
      {canRemove && <IconButton icon="trash" label={t("order.remove", { name })} why={why} disabled={busy !== null} onClick={remove} />}
    </div>
  );
}
