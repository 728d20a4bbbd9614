/** Opcodes of WebAssembly that the kernels need; `v` marks those on four floats at once. */
const op = {
  block: [0x02, 0x40],
  loop: [0x03, 0x40],
  end: [0x0b],
  brOut: [0x0c, 1],
  brOutIf: [0x0d, 1],
  brIf: [0x0d, 0],
  br: [0x0c, 0],
  add: [0x6a],
  subtract: [0x6b],
  lessThan: [0x49],
  floatAdd: [0x92],
  vAdd: [0xfd, 0xe4, 0x01],
  vMultiply: [0xfd, 0xe6, 0x01],
  vZero: [0xfd, 0x0c, ...new Array<number>(16).fill(0)],
} as const;

const i32 = 0x7f;
const v128 = 0x7b;

const get = (local: number): number[] => [0x20, local];
const set = (local: number): number[] => [0x21, local];
const number = (value: number): number[] => [0x41, ...signed(value)];
const vLoad = (offset: number): number[] => [0xfd, 0x00, 2, offset];
const vLane = (lane: number): number[] => [0xfd, 0x1f, lane];
const advance = (local: number, bytes: readonly number[]): number[] => [
  ...get(local),
  ...bytes,
  ...op.add,
  ...set(local),
];

/** Floats that one round of a kernel takes: every vector's length is a multiple of it. */
export const simdStep = 16;
const bytesPerRound = simdStep * 4;

/** A tile of products: so many queries with so many rows, each pair in a sum of its own. */
interface Tile {
  readonly queries: number;
  readonly rows: number;
}

/** Queries that are taken at once: each row is then read from memory once for all of them. */
export const queriesAtOnce = 4;

/**
 * `dots(queries, rows, count, bytes, out, stride)`: the products of the tile's queries and each of
 * `count` rows; those of a query are `stride` bytes behind those of the one before. An addition
 * takes several cycles and two can begin in each, so there are some eight sums side by side. Every
 * pair is added up in the same order in every tile: the same two vectors have the same product.
 */
function dotsCode(tile: Tile): number[] {
  const [query, rows, count, bytes, out, stride] = [0, 1, 2, 3, 4, 5];
  const [end, from] = [6, 7];
  const [queryAt, rowAt] = [8, 8 + tile.queries];
  const place = rowAt + tile.rows;
  const [sums, loaded] = [place + 1, place + 1 + tile.queries * tile.rows];
  const index = (length: number) => Array.from({ length }, (_, at) => at);
  const round = (height: number) => {
    const pairs = index(tile.queries).flatMap((q) => index(height).map((r) => [q, r] as const));
    const sum = (q: number, r: number) => sums + q * tile.rows + r;
    const terms = [0, 1, 2, 3].flatMap((lane) => [
      ...index(height).flatMap((r) => [...get(rowAt + r), ...vLoad(lane * 16), ...set(loaded + r)]),
      ...index(tile.queries).flatMap((q) => [
        ...[...get(queryAt + q), ...vLoad(lane * 16), ...set(loaded + tile.rows)],
        ...index(height).flatMap((r) => [
          ...[...get(loaded + tile.rows), ...get(loaded + r), ...op.vMultiply],
          ...[...get(sum(q, r)), ...op.vAdd, ...set(sum(q, r))],
        ]),
      ]),
    ]);
    const pointers = [...index(tile.queries).map((q) => queryAt + q)];
    for (const r of index(height)) pointers.push(rowAt + r);
    const step = number(bytesPerRound);
    return [
      ...[...op.block, ...op.loop, ...get(count), ...number(height), ...op.lessThan, ...op.brOutIf],
      ...[...get(query), ...set(from)],
      ...index(tile.queries).flatMap((q) => [
        ...[...get(from), ...set(queryAt + q), ...advance(from, get(bytes))],
      ]),
      ...index(height).flatMap((r) => [
        ...[...get(rows), ...set(rowAt + r), ...advance(rows, get(bytes))],
      ]),
      ...pairs.flatMap(([q, r]) => [...op.vZero, ...set(sum(q, r))]),
      ...[...get(query), ...get(bytes), ...op.add, ...set(end)],
      ...[...op.loop, ...terms, ...pointers.flatMap((local) => advance(local, step))],
      ...[...get(queryAt), ...get(end), ...op.lessThan, ...op.brIf, ...op.end],
      ...[...get(out), ...set(place)],
      ...index(tile.queries).flatMap((q) => [
        ...index(height).flatMap((r) => [...[...get(place), ...total(sum(q, r)), 0x38, 2, 4 * r]]),
        ...advance(place, get(stride)),
      ]),
      ...advance(out, number(4 * height)),
      ...[...get(count), ...number(height), ...op.subtract, ...set(count), ...op.br],
      ...[...op.end, ...op.end],
    ];
  };
  // What is left when the rows do not come out even is done one by one.
  const code = [...round(tile.rows), ...round(1), ...op.end];
  const vectors = tile.queries * tile.rows + tile.rows + 1;
  return [2, 2 + tile.queries + tile.rows + 1, i32, vectors, v128, ...code];
}

/** The sum of the four floats of a local. */
function total(local: number): number[] {
  const lanes = [0, 1, 2, 3].flatMap((lane) => [...get(local), ...vLane(lane)]);
  return [...lanes, ...op.floatAdd, ...op.floatAdd, ...op.floatAdd];
}

/** The kernels as a WebAssembly module that takes its memory from outside. */
export function simdModule(): Uint8Array<ArrayBuffer> {
  const name = (text: string) => [text.length, ...Buffer.from(text)];
  const section = (id: number, ...items: readonly number[][]) => {
    const body = [...unsigned(items.length), ...items.flat()];
    return [id, ...unsigned(body.length), ...body];
  };
  const body = (code: readonly number[]) => [...unsigned(code.length), ...code];
  const six = [i32, i32, i32, i32, i32, i32];
  const codes: readonly (readonly [name: string, code: number[]])[] = [
    ['dots', dotsCode({ queries: 1, rows: 4 })],
    ['dotsAtOnce', dotsCode({ queries: queriesAtOnce, rows: 2 })],
  ];
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [0x60, 6, ...six, 0]),
    ...section(2, [...name('arena'), ...name('memory'), 2, 0, 0]),
    ...section(3, ...codes.map(() => [0])),
    ...section(7, ...codes.map(([own], at) => [...name(own), 0, at])),
    ...section(10, ...codes.map(([, code]) => body(code))),
  ]);
}

function unsigned(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...unsigned(value >>> 7)];
}

function signed(value: number): number[] {
  const rest = value >> 7;
  const isLast = value >= -64 && value < 64;
  return isLast ? [value & 127] : [(value & 127) | 128, ...signed(rest)];
}
