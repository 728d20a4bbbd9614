import type { Bench } from './contest.ts';

/** Every bench by name: `npm run bench -- <name>`. */
export const benches: Readonly<Record<string, () => Promise<Bench>>> = {
  pool: async () => (await import('./pool.ts')).pool,
  gate: async () => (await import('./gate.ts')).gate,
  bucket: async () => (await import('./bucket.ts')).bucket,
  store: async () => (await import('./store.ts')).store,
  shared: async () => (await import('./shared.ts')).shared,
  document: async () => (await import('./document.ts')).document,
  http: async () => (await import('./http.ts')).http,
  fleet: async () => (await import('./fleet.ts')).fleet,
  pages: async () => (await import('./pages.ts')).pages,
  console: async () => (await import('./console.ts')).console,
  ingest: async () => (await import('./ingest.ts')).ingest,
  ranker: async () => (await import('./ranker.ts')).ranker,
  limits: async () => (await import('./limits.ts')).limits,
  adopt: async () => (await import('./adopt.ts')).adopt,
  overload: async () => (await import('./overload.ts')).overload,
};
