import { isPlainObject, plain } from '../base/plain.ts';

const mask = '***';
const secretWords = 'passw|passphrase|secret|token|key|credential';
const secretName = new RegExp(secretWords, 'i');
/** What stands between `//` and the last `@` of an address's host part. */
const userInfo = /(\b[a-z][a-z\d+.-]*:\/\/)[^/?#\s]*@/gi;
/** `password=…` in the query of an address or in a connection string, quoted or not. */
const secretPair = new RegExp(
  `((?:^|[?&;,\\s])[\\w.-]*(?:${secretWords})[\\w.-]*\\s*=\\s*)('[^']*'|"[^"]*"|[^&;,#\\s]*)`,
  'gi',
);
const depthMax = 12;

/**
 * A copy of a configuration that may be shown: whatever is under a name that speaks of a secret is
 * hidden, at any depth, and so are passwords inside addresses and connection strings.
 */
export function masked(value: unknown, depth = 0): unknown {
  if (typeof value === 'string') return maskedText(value);
  if (value instanceof URL) return maskedText(value.href);
  if (typeof value !== 'object' || value === null) return plain(value);
  if (depth >= depthMax) return '[deeper]';
  if (Array.isArray(value)) return value.map((item) => masked(item, depth + 1));
  // Instances may hold anything, key material too, so they are only named.
  if (!isPlainObject(value)) return `[${value.constructor?.name ?? 'object'}]`;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, maskedField(name, item, depth)]),
  );
}

function maskedField(name: string, value: unknown, depth: number): unknown {
  // That a secret is not set is worth knowing, and tells nobody anything.
  if (value === undefined || value === null) return null;
  return secretName.test(name) ? mask : masked(value, depth + 1);
}

function maskedText(text: string): string {
  return text.replace(userInfo, `$1${mask}@`).replace(secretPair, `$1${mask}`);
}
