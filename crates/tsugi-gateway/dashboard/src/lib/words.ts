/** A command line as a shell would split it, without a shell: quotes and backslashes, nothing else. */
export function splitWords(line: string): string[] {
  const words: string[] = [];
  let word: string | null = null;
  let quote: "'" | '"' | null = null;
  for (let at = 0; at < line.length; at += 1) {
    const here = line[at]!;
    if (quote === "'") {
      if (here === "'") quote = null;
      else word += here;
    } else if (here === "\\" && at + 1 < line.length) {
      at += 1;
      word = (word ?? "") + line[at];
    } else if (quote === '"') {
      if (here === '"') quote = null;
      else word += here;
    } else if (here === "'" || here === '"') {
      quote = here;
      word ??= "";
    } else if (/\s/.test(here)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? "") + here;
    }
  }
  if (word !== null) words.push(word);
  return words;
}
