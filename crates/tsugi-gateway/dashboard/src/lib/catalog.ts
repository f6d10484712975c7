/** What servers offer, asked for when somebody wants to see it and kept until the server changes. */

import { signal } from "@preact/signals";
import { ask } from "./api";
import type { Prompt, Resource, ResourceTemplate, ServerDetail, Tool } from "./types";

export interface Catalog {
  tools: Tool[];
  resources: Resource[];
  templates: ResourceTemplate[];
  prompts: Prompt[];
  /** When the server was started that said so. */
  startedAt: number | null;
}

export const catalogs = signal<Record<string, Catalog>>({});

export async function loadServer(name: string): Promise<ServerDetail> {
  const detail = await ask<ServerDetail>(`/api/servers/${encodeURIComponent(name)}`);
  keep(name, detail);
  return detail;
}

function keep(name: string, detail: ServerDetail): void {
  const { tools, resources, templates, prompts, startedAt } = detail;
  catalogs.value = { ...catalogs.value, [name]: { tools: tools ?? [], resources: resources ?? [], templates: templates ?? [], prompts: prompts ?? [], startedAt } };
}

export async function loadCatalog(name: string, isFresh = false): Promise<void> {
  if (!isFresh && Object.hasOwn(catalogs.value, name)) return;
  await loadServer(name);
}

/** All of them, one after the other; a server that cannot tell is left out. */
export async function loadCatalogs(names: string[]): Promise<void> {
  for (const name of names) await loadCatalog(name).catch(() => undefined);
}
