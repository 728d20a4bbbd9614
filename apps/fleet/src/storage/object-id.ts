import { randomBytes } from 'node:crypto';

const process = randomBytes(5).toString('hex');
let count = randomBytes(3).readUIntBE(0, 3);

/** 24 hexadecimal digits that nobody else makes; later ones are greater, second by second. */
export function objectId(now: number): string {
  count = (count + 1) % 2 ** 24;
  const seconds = Math.floor(now / 1000);
  return `${hex(seconds, 8)}${process}${hex(count, 6)}`;
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0');
}
