// Icons, drawn with lines. They repeat a word that stands beside them, so screen readers skip them.
const paths = {
  home: "M3 11 12 3l9 8M5 10v10h5v-6h4v6h5V10",
  fleets: "M4 4h16v6H4zM4 14h16v6H4zM8 7h.01M8 17h.01",
  inbox: "M4 4h16l2 9v7H2v-7zM2 13h6l2 3h4l2-3h6",
  tools: "M14 7a4 4 0 0 1 5-4l-3 3 2 2 3-3a4 4 0 0 1-5 5L8 18a2 2 0 0 1-3-3z",
  toolsets: "M4 5h3v3H4zM10 6.500h10M4 11h3v3H4zM10 12.500h10M4 17h3v3H4zM10 18.500h10",
  connect: "M9 7V3M15 7V3M6 7h12v4a6 6 0 0 1-12 0zM12 17v4",
  policies: "M12 3 4 6v6c0 5 3.5 8 8 9 4.5-1 8-4 8-9V6zM9 12l2 2 4-4",
  tenants: "M9 11a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM2 21c0-4 3-6 7-6s7 2 7 6M16 3a4 4 0 0 1 0 8M18 15c2 .6 4 2.500 4 6",
  calls: "M3 12h4l3-8 4 16 3-8h4",
  webhooks: "M4 4h16v13H4zM4 6l8 6 8-6",
  audit: "M6 3h9l4 4v14H6zM9 12h7M9 16h7M9 8h3",
  sessions: "M3 4h18v12H3zM8 20h8M12 16v4M10 8h4M9 12h6",
  find: "M10.500 3a7.500 7.500 0 1 0 0 15 7.500 7.500 0 0 0 0-15zM16 16l5 5",
  sun:
    "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2" +
    "M5 5l1.500 1.500M17.500 17.500 19 19M5 19l1.500-1.500M17.500 6.500 19 5",
  moon: "M20 14A8 8 0 0 1 10 4a8 8 0 1 0 10 10z",
  auto: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
  more: "M4 6h16M4 12h16M4 18h16",
  keys: "M3 6h18v12H3zM7 10h.01M11 10h.01M15 10h.01M8 14h8",
  person: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4 21c0-4 3.500-6 8-6s8 2 8 6",
  bot: "M5 9h14v11H5zM12 9V5M9 14h.01M15 14h.01M10 17h4",
  clock: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 7v5l3 2",
  check: "M4 12l5 5L20 6",
  cross: "M5 5l14 14M19 5 5 19",
  lock: "M6 11h12v10H6zM8 11V8a4 4 0 0 1 8 0v3",
  book: "M5 4h14v16H5zM9 4v16",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg
      class="icon"
      viewBox="0 0 24 24"
      width="20"
      height="20"
      fill="none"
      stroke="currentColor"
      stroke-width="1.75"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      <path d={paths[name]} />
    </svg>
  );
}
