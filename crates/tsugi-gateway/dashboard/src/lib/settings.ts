/** What the page remembers between visits: language and colours. Without storage it forgets, and works. */

export function remembered(name: string): string | null {
  try {
    return localStorage.getItem(`tsugi.${name}`);
  } catch {
    return null;
  }
}

export function remember(name: string, value: string): void {
  try {
    localStorage.setItem(`tsugi.${name}`, value);
  } catch {
    // Private windows may refuse; the choice then lasts as long as the page.
  }
}
