/** Whole strings that a field may hold; `timeControlPattern` is kept with time controls. */
export const patterns = {
  book: /\.(epd|pgn)$/,
  githubRepo: /^https:\/\/(www\.)?github\.com\/[\w.-]{1,100}\/[\w.-]{1,100}$/,
  longWorkerName: /^[A-Za-z0-9]{2,}-\d+cores-[0-9a-zA-Z]{2,8}-[a-f0-9]{4}\*?$/,
  netName: /^nn-[a-f0-9]{12}\.nnue$/,
  optionList: /^([!-<>-~]+=[!-<>-~]+( [!-<>-~]+=[!-<>-~]+)*)?$/,
  runId: /^[0-9a-fA-F]{24}$/,
  shortWorkerName: /^[A-Za-z0-9]{2,}-\d+cores-[0-9a-zA-Z]{2,8}$/,
  signature: /^[1-9]\d*$/,
  uniqueKey: /^[0-9a-zA-Z]{2,8}(-[a-f0-9]{4}){3}-[a-f0-9]{12}$/,
  username: /^[A-Za-z0-9]{2,}$/,
};

/** True for an object with named fields, and not for a list. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Processors that a worker may name; one that does not know its own says `unknown`. */
export const architectures: readonly string[] = (
  'apple-silicon armv7 armv7-neon armv8 armv8-dotprod e2k general-32 general-64 loongarch64 ' +
  'loongarch64-lasx loongarch64-lsx ppc-32 ppc-64 ppc-64-altivec ppc-64-vsx riscv64 x86-32 ' +
  'x86-32-sse2 x86-32-sse41-popcnt x86-64 x86-64-avx2 x86-64-avx512 x86-64-avxvnni ' +
  'x86-64-bmi2 x86-64-sse3-popcnt x86-64-sse41-popcnt x86-64-ssse3 x86-64-vnni512 ' +
  'x86-64-avx512icl'
).split(' ');
