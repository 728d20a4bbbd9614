import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto';

/** Cost of new hashes: 32 MiB and some 80 ms of one core (2026-11); each hash names its own. */
const cost = { N: 2 ** 15, r: 8, p: 1 };
const keyBytes = 32;
const saltBytes = 16;
const memoryMax = 256 * 2 ** 20;

/** `scrypt$N$r$p$salt$key`, to be stored instead of the password. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(saltBytes);
  const key = await derive(password, salt, cost);
  const numbers = [cost.N, cost.r, cost.p];
  return ['scrypt', ...numbers, salt.toString('base64'), key.toString('base64')].join('$');
}

/** Whether a hash was made of this password; false for what is no hash. */
export async function matchesPassword(password: string, hash: string): Promise<boolean> {
  const [kind, N, r, p, salt = '', wanted = ''] = hash.split('$');
  if (kind !== 'scrypt') return false;
  const options = { N: Number(N), r: Number(r), p: Number(p) };
  const key = await derive(password, Buffer.from(salt, 'base64'), options);
  const expected = Buffer.from(wanted, 'base64');
  return expected.length === key.length && timingSafeEqual(expected, key);
}

/** A hash that no password matches, as costly to try as any. */
export const impossibleHash: string = [
  'scrypt',
  ...[cost.N, cost.r, cost.p],
  Buffer.alloc(saltBytes).toString('base64'),
  Buffer.alloc(keyBytes).toString('base64'),
].join('$');

function derive(password: string, salt: Buffer, options: ScryptOptions): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(password, salt, keyBytes, { ...options, maxmem: memoryMax }, (error, key) => {
      if (error === null) resolve(key);
      else reject(error);
    });
  });
}
