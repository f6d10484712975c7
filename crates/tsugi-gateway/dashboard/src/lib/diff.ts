/** What changed between two texts, line by line. */

export interface DiffLine {
  sign: " " | "-" | "+";
  text: string;
}

/** Beyond this many lines on both sides together the texts are shown one after the other. */
const MOST_CELLS = 250_000;
/** Unchanged lines that are shown around a change. */
const AROUND = 2;

export function lineDiff(before: string, after: string): DiffLine[] {
  const [old, fresh] = [before === "" ? [] : before.split("\n"), after === "" ? [] : after.split("\n")];
  if (old.length * fresh.length > MOST_CELLS) return [...signed("-", old), ...signed("+", fresh)];
  return shorten(walk(old, fresh, common(old, fresh)));
}

function signed(sign: DiffLine["sign"], lines: string[]): DiffLine[] {
  return lines.map((text) => ({ sign, text }));
}

/** How many lines the rests of both texts have in common, for each pair of places. */
function common(old: string[], fresh: string[]): number[][] {
  const table = Array.from({ length: old.length + 1 }, () => new Array<number>(fresh.length + 1).fill(0));
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = fresh.length - 1; j >= 0; j -= 1) {
      table[i]![j] = old[i] === fresh[j] ? table[i + 1]![j + 1]! + 1 : Math.max(table[i + 1]![j]!, table[i]![j + 1]!);
    }
  }
  return table;
}

function walk(old: string[], fresh: string[], table: number[][]): DiffLine[] {
  const lines: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < old.length && j < fresh.length) {
    if (old[i] === fresh[j]) {
      lines.push({ sign: " ", text: old[i]! });
      i += 1;
      j += 1;
    } else if (table[i + 1]![j]! >= table[i]![j + 1]!) {
      lines.push({ sign: "-", text: old[i]! });
      i += 1;
    } else {
      lines.push({ sign: "+", text: fresh[j]! });
      j += 1;
    }
  }
  return [...lines, ...signed("-", old.slice(i)), ...signed("+", fresh.slice(j))];
}

/** Leaves out what did not change, but for a little around each change. */
function shorten(lines: DiffLine[]): DiffLine[] {
  const isNear = (at: number) => lines.slice(Math.max(0, at - AROUND), at + AROUND + 1).some((line) => line.sign !== " ");
  const kept: DiffLine[] = [];
  lines.forEach((line, at) => {
    if (isNear(at)) kept.push(line);
    else if (kept.at(-1)?.text !== "…") kept.push({ sign: " ", text: "…" });
  });
  return kept;
}
