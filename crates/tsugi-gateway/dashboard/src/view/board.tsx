/** The board comes here. */
export function Board(_: { selected: string | undefined }) {
  return null;
}
