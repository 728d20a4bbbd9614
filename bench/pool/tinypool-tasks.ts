import { Tinypool } from 'tinypool';

export { echo, noop, spin } from './tasks.ts';

export function bytes(value: Uint8Array): unknown {
  return Tinypool.move(value);
}
