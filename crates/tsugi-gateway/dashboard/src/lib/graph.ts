/** Where the tasks around one task are drawn: prerequisites to its left, what waits for it to its right. */

export interface Place {
  id: string;
  /** The column, negative to the left of the task. */
  depth: number;
  row: number;
}

/** Places for every task that an edge leads to. An edge goes from the task that waits to its prerequisite. */
export function places(center: string, edges: [string, string][]): Place[] {
  const depths = new Map([[center, 0]]);
  const waiting = [center];
  for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
    const depth = depths.get(id)!;
    for (const [waits, on] of edges) {
      const next = waits === id ? ([on, depth - 1] as const) : on === id ? ([waits, depth + 1] as const) : null;
      if (next === null || depths.has(next[0])) continue;
      depths.set(...next);
      waiting.push(next[0]);
    }
  }
  const rows = new Map<number, number>();
  return [...depths].map(([id, depth]) => {
    const row = rows.get(depth) ?? 0;
    rows.set(depth, row + 1);
    return { id, depth, row };
  });
}
