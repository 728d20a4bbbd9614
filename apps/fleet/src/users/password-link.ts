import { createHmac, timingSafeEqual } from 'node:crypto';
import type { User } from './user.ts';

/** Time for which a link can be used, in milliseconds. */
export const linkMs: number = 7 * 86_400_000;

type LinkUser = Pick<User, 'username' | 'passwordHash'>;

/**
 * The path of a page on which a user chooses a new password, once: it is signed together with the
 * present password, so that a new one makes it void. `expiresAt` is an integer.
 */
export function passwordLink(key: string, user: LinkUser, expiresAt: number): string {
  const name = encodeURIComponent(user.username);
  return `/password/${name}/${expiresAt.toString(36)}-${signature(key, user, expiresAt)}`;
}

/** True if the last part of a path was made for this user, and can still be used. */
export function isPasswordLink(key: string, user: LinkUser, part: string, now: number): boolean {
  const [time = '', given = ''] = part.split(/-(.*)/s);
  const expiresAt = Number.parseInt(time, 36);
  if (!(expiresAt > now)) return false;
  const expected = Buffer.from(signature(key, user, expiresAt));
  const actual = Buffer.from(given);
  return expected.length === actual.length && timingSafeEqual(expected, actual);
}

function signature(key: string, { username, passwordHash }: LinkUser, expiresAt: number): string {
  const text = JSON.stringify(['password link', username, passwordHash, expiresAt]);
  return createHmac('sha256', key).update(text).digest('base64url');
}
