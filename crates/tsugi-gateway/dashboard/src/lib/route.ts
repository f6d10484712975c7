/** Where the reader is, kept in the part of the address after `#`. */

import { signal } from "@preact/signals";

export interface Route {
  parts: string[];
  query: URLSearchParams;
}

export function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  return { parts: path.split("/").filter((part) => part !== "").map(decode), query: new URLSearchParams(query) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a place. */
export function to(...parts: string[]): string {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

export const route = signal<Route>(parse(typeof location === "undefined" ? "" : location.hash));

export function followAddress(): void {
  addEventListener("hashchange", () => (route.value = parse(location.hash)));
}

export function go(address: string): void {
  location.hash = address;
}

/** Changes the query of the address without a new step in the history. */
export function replaceQuery(query: string): void {
  const path = location.hash.split("?", 1)[0] || "#/";
  history.replaceState(null, "", query === "" ? path : `${path}?${query}`);
  route.value = parse(location.hash);
}
