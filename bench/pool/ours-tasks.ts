import { type Transfer, transfer } from 'spillway';

export { echo, noop, spin } from './tasks.ts';

export function bytes(value: Uint8Array<ArrayBuffer>): Transfer<Uint8Array<ArrayBuffer>> {
  return transfer(value, [value.buffer]);
}
