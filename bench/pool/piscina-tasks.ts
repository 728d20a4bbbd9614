import { move } from 'piscina';

export { echo, noop, spin } from './tasks.ts';

export function bytes(value: Uint8Array): unknown {
  return move(value);
}
