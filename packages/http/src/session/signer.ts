import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import { check } from 'spillway/internal';

/** Secrets of at least 32 bytes. The first signs and all verify, so that one can be replaced. */
export type SigningKeys = readonly (string | Uint8Array)[];

const keyBytesMin = 32;

/** Signs texts for a purpose (HMAC-SHA-256): what was signed for one is void for any other. */
export class Signer {
  /** Made once: from plain bytes each signature would make them anew, at ten times the price. */
  readonly #keys: readonly KeyObject[];

  constructor(keys: SigningKeys) {
    const isKey = (key: string | Uint8Array) => Buffer.byteLength(key) >= keyBytesMin;
    const holds = Array.isArray(keys) && keys.length > 0 && keys.every(isKey);
    // The keys themselves must not be in a message.
    check(holds, 'keys', `a list of keys of at least ${keyBytesMin} bytes`, 'others');
    this.#keys = keys.map((key) =>
      typeof key === 'string' ? createSecretKey(key, 'utf8') : createSecretKey(key),
    );
  }

  sign(purpose: string, text: string): string {
    return signature(this.#keys[0] as KeyObject, purpose, text);
  }

  verify(purpose: string, text: string, given: string): boolean {
    return this.#keys.some((key) => isSame(signature(key, purpose, text), given));
  }
}

/** Compares secrets in a time that does not tell where they differ. */
export function isSame(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}

function signature(key: KeyObject, purpose: string, text: string): string {
  return createHmac('sha256', key).update(`${purpose}\0${text}`).digest('base64url');
}
