/** Opcodes of WebAssembly that the kernels need; `v` marks those on four floats at once. */
const op = {
  block: [0x02, 0x40],
  loop: [0x03, 0x40],
  end: [0x0b],
  brOut: [0x0c, 1],
  brOutIf: [0x0d, 1],
  brIf: [0x0d, 0],
  br: [0x0c, 0],
  eqz: [0x45],
  add: [0x6a],
  subtract: [0x6b],
  lessThan: [0x49],
  floatAdd: [0x92],
  floatStore: [0x38, 2, 0],
  vSplat: [0xfd, 0x13],
  vStore: [0xfd, 0x0b, 2, 0],
  vAdd: [0xfd, 0xe4, 0x01],
  vMultiply: [0xfd, 0xe6, 0x01],
  vZero: [0xfd, 0x0c, ...new Array<number>(16).fill(0)],
} as const;

const i32 = 0x7f;
const f32 = 0x7d;
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

/**
 * `dots(query, rows, count, bytes, out)`: the product of the query and each row. Four sums side by
 * side, since an addition takes four cycles and two can begin in each.
 */
function dotsCode(): number[] {
  const [query, rows, count, bytes, out, at, sums] = [0, 1, 2, 3, 4, 5, 6];
  const terms = [0, 1, 2, 3].flatMap((lane) => [
    ...[...get(query), ...get(at), ...op.add, ...vLoad(lane * 16)],
    ...[...get(rows), ...get(at), ...op.add, ...vLoad(lane * 16)],
    ...[...op.vMultiply, ...get(sums + lane), ...op.vAdd, ...set(sums + lane)],
  ]);
  const total = [0, 1, 2, 3].flatMap((lane) => [...get(sums), ...vLane(lane)]);
  const code = [
    ...[...op.block, ...op.loop, ...get(count), ...op.eqz, ...op.brOutIf],
    ...[0, 1, 2, 3].flatMap((lane) => [...op.vZero, ...set(sums + lane)]),
    ...[...number(0), ...set(at), ...op.loop, ...terms, ...advance(at, number(bytesPerRound))],
    ...[...get(at), ...get(bytes), ...op.lessThan, ...op.brIf, ...op.end],
    ...[...get(sums), ...get(sums + 1), ...op.vAdd, ...get(sums + 2), ...op.vAdd],
    ...[...get(sums + 3), ...op.vAdd, ...set(sums)],
    ...[...get(out), ...total, ...op.floatAdd, ...op.floatAdd, ...op.floatAdd, ...op.floatStore],
    ...[...advance(rows, get(bytes)), ...advance(out, number(4))],
    ...[...get(count), ...number(1), ...op.subtract, ...set(count), ...op.br],
    ...[...op.end, ...op.end, ...op.end],
  ];
  return [2, 1, i32, 4, v128, ...code];
}

/** `addTo(target, vector, bytes, factor)`: adds `factor` times the vector to the target. */
function addToCode(): number[] {
  const [target, vector, bytes, factor, factors] = [0, 1, 2, 3, 4];
  const steps = [0, 1, 2, 3].flatMap((lane) => [
    ...[...get(target), ...get(vector), ...vLoad(lane * 16), ...get(factors), ...op.vMultiply],
    ...[...get(target), ...vLoad(lane * 16), ...op.vAdd, 0xfd, 0x0b, 2, lane * 16],
  ]);
  const code = [
    ...[...get(factor), ...op.vSplat, ...set(factors), ...op.loop, ...steps],
    ...[...advance(target, number(bytesPerRound)), ...advance(vector, number(bytesPerRound))],
    ...[...get(bytes), ...number(bytesPerRound), ...op.subtract, 0x22, bytes, ...op.brIf],
    ...[...op.end, ...op.end],
  ];
  return [1, 1, v128, ...code];
}

/** The kernels as a WebAssembly module that takes its memory from outside. */
export function simdModule(): Uint8Array<ArrayBuffer> {
  const name = (text: string) => [text.length, ...Buffer.from(text)];
  const section = (id: number, ...items: readonly number[][]) => {
    const body = [...unsigned(items.length), ...items.flat()];
    return [id, ...unsigned(body.length), ...body];
  };
  const body = (code: readonly number[]) => [...unsigned(code.length), ...code];
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [0x60, 5, i32, i32, i32, i32, i32, 0], [0x60, 4, i32, i32, i32, f32, 0]),
    ...section(2, [...name('arena'), ...name('memory'), 2, 0, 0]),
    ...section(3, [0], [1]),
    ...section(7, [...name('dots'), 0, 0], [...name('addTo'), 0, 1]),
    ...section(10, body(dotsCode()), body(addToCode())),
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
