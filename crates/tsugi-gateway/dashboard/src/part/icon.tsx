/** The page's few drawings, all strokes of one weight. */

const PATHS = {
  overview: "M3 5h14M3 10h14M3 15h9",
  play: "M6 4l10 6-10 6z",
  calls: "M3 6h3M9 6h8M3 10h3M9 10h8M3 14h3M9 14h8",
  charts: "M3 16V4M3 16h14M6 12l3-4 3 2 4-6",
  audit: "M5 3h10v14H5zM8 7h4M8 10h4M8 13h2",
  board: "M4 4h3.5v12H4zM8.5 4H12v8H8.5zM13 4h3.5v10H13z",
  pin: "M7 3h6M8 3v5l-2.5 3h9L12 8V3M10 11v6",
  search: "M9 3.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM13 13l4 4",
  sun: "M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM10 1.8v2M10 16.2v2M1.8 10h2M16.2 10h2M4.2 4.2l1.4 1.4M14.4 14.4l1.4 1.4M15.8 4.2l-1.4 1.4M5.6 14.4l-1.4 1.4",
  moon: "M16 12.2A6.8 6.8 0 0 1 7.8 4 6.8 6.8 0 1 0 16 12.2z",
  system: "M3 4h14v9H3zM7 17h6M10 13v4",
  close: "M5 5l10 10M15 5L5 15",
  restart: "M15.5 7A6.3 6.3 0 1 0 16.3 11M16 3v4h-4",
  stop: "M5.5 5.5h9v9h-9z",
  copy: "M7 7h9v9H7zM4 13V4h9",
  plus: "M10 4v12M4 10h12",
  help: "M7.3 7.4a2.8 2.8 0 1 1 4 2.6c-.9.4-1.3 1-1.3 1.9M10 15v.1",
  out: "M8 4H4v12h4M12 6l4 4-4 4M16 10H8",
  pause: "M7 4v12M13 4v12",
  trash: "M4 6h12M8 6V4h4v2M5.5 6l.8 10h7.4l.8-10",
  back: "M12 4l-6 6 6 6",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 20 20" width="16" height="16" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

/** The mark: a joint, one line taking over from another. */
export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
      <rect width="32" height="32" rx="7" class="mark-ground" />
      <path d="M5 21c6 0 6-10 11-10s5 10 11 10" fill="none" class="mark-seam" stroke-width="3.2" stroke-linecap="round" />
    </svg>
  );
}
