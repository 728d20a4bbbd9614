import { ingestError } from '../errors.ts';
import { maskedMessage } from './answer.ts';

const variable = /\$\{(\w+)\}/g;
/** Shortest value to mask: shorter ones are no secrets, and occur in many texts. */
const lengthMin = 4;

/** Values of variables that a declaration names as `${NAME}`: sent to the API, but never shown. */
export class Secrets {
  readonly #environment: Readonly<Record<string, string | undefined>>;
  /** Encodings in which an API may repeat a value, longest first, each with its mask. */
  #forms: readonly (readonly [form: string, mask: string])[] = [];
  /** Patterns of values with any characters escaped; their masks cannot be undone. */
  readonly #patterns: (readonly [pattern: RegExp, mask: string])[] = [];

  constructor(environment: Readonly<Record<string, string | undefined>>) {
    this.#environment = environment;
  }

  /** Replaces names by values; throws `SOURCE_INVALID` for a variable that is not set or usable. */
  fill(where: string, text: string): string {
    return text.replaceAll(variable, (_, name: string) => {
      const value = this.#environment[name] ?? '';
      const isOneLine = !/\p{Cc}/u.test(value);
      if (value !== '' && isOneLine) {
        this.#add(name, value);
        return value;
      }
      const why = isOneLine ? 'is not set' : 'has a line break or another control character in it';
      throw ingestError('SOURCE_INVALID', `${where}: the variable ${name} ${why}`);
    });
  }

  #add(name: string, value: string): void {
    if (value.length < lengthMin) return;
    const base64 = Buffer.from(value).toString('base64');
    const encoded = encodeURIComponent(value);
    const forms = {
      '': value,
      '|json': JSON.stringify(value).slice(1, -1),
      '|json-slash': JSON.stringify(value).slice(1, -1).replaceAll('/', '\\/'),
      '|uri': encoded,
      '|uri-whole': encodeURI(value),
      '|uri-strict': encoded.replaceAll(/[!'()*]/g, (letter) => {
        return `%${letter.charCodeAt(0).toString(16).toUpperCase()}`;
      }),
      '|uri-lower': encoded.replaceAll(/%../g, (code) => code.toLowerCase()),
      '|form': new URLSearchParams([['', value]]).toString().slice(1),
      '|base64': base64,
      '|base64-uri': encodeURIComponent(base64),
      '|base64-bare': base64.replace(/=+$/, ''),
      '|base64url': Buffer.from(value).toString('base64url'),
      ...withinBase64(value),
      '|hex': Buffer.from(value).toString('hex'),
      '|hex-upper': Buffer.from(value).toString('hex').toUpperCase(),
    };
    const all = new Map(this.#forms);
    for (const [kind, form] of Object.entries(forms)) {
      if (!all.has(form)) all.set(form, `\${${name}${kind}}`);
    }
    this.#forms = [...all].sort(([a], [b]) => b.length - a.length);
    const packed = [value, base64, encoded, forms['|form'], forms['|json']].flatMap((text) =>
      Object.values(withinBase64(text)),
    );
    const texts = [value, ...packed, forms['|hex'], forms['|hex-upper']];
    const pattern = texts
      .filter(({ length }) => length >= lengthMin)
      .map(escaped)
      .join('|');
    this.#patterns.push([new RegExp(pattern, 'g'), `\${${name}|escaped}`]);
    // Basic authentication is a name and a password in base64; the password is masked alone, too.
    const plain = Buffer.from(value, 'base64').toString();
    const [, password] = /^[\x20-\x7e]*?:([\x20-\x7e]+)$/.exec(plain) ?? [];
    if (password === undefined || Buffer.from(plain).toString('base64') !== value) return;
    this.#add(`${name}|plain`, plain);
    this.#add(`${name}|password`, password);
  }

  /** Masks values. */
  hide(text: string): string {
    return this.#patterns.reduce(
      (part, [pattern, mask]) => part.replace(pattern, mask),
      this.#withoutForms(text),
    );
  }

  /** Masks values so that {@link show} can undo it; throws if it could not. */
  keep(text: string): string {
    const kept = this.#withoutForms(text);
    if (this.hide(text) === kept) return kept;
    const why = 'has a secret in it, escaped in an unknown way, and is not kept';
    throw ingestError('EXCHANGE_CHANGED', `the cursor ${this.hide(text)} ${why}`);
  }

  #withoutForms(text: string): string {
    return this.#forms.reduce((part, [form, mask]) => part.replaceAll(form, mask), text);
  }

  /** Undoes {@link keep}. */
  show(text: string): string {
    return this.#forms.reduce((part, [form, mask]) => part.replaceAll(mask, () => form), text);
  }

  /** Runs the work, and masks values in its errors. */
  async guard<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      for (let one = error; one instanceof Error; one = one.cause) {
        const { message: told, stack = '' } = one;
        const message = maskedMessage(one, (text) => this.hide(text));
        if (message !== told) Object.defineProperty(one, 'message', { value: message });
        const trace = this.hide(stack.replace(told, () => message));
        if (trace !== stack) Object.defineProperty(one, 'stack', { value: trace });
      }
      throw error;
    }
  }
}

const entities = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot', "'": 'apos' };

/** Characters of a value in its pattern: a pattern of 2,000 overflows. */
const patternMax = 128;

/**
 * Makes a pattern of a text in which each character may be escaped as in URLs, JSON or HTML, also
 * repeatedly. Of a longer text only the beginning is matched, and everything after it is masked.
 */
function escaped(text: string): string {
  const hex = (code: number, length = 2): string => {
    const digits = code.toString(16).padStart(length, '0');
    return digits.replaceAll(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`);
  };
  const letters = Array.from(text.slice(0, patternMax), (letter) => {
    const code = letter.codePointAt(0) as number;
    const units = letter.split('').map((unit) => `u${hex(unit.charCodeAt(0), 4)}`);
    const all = [
      RegExp.escape(letter),
      Array.from(Buffer.from(letter), (byte) => `%(?:25)*${hex(byte)}`).join(''),
      units.join('\\\\+'),
      `&(?:amp;)*#(?:0*${code}|[xX]0*${hex(code, 1)});`,
      ...(letter in entities ? [`&(?:amp;)*${entities[letter as keyof typeof entities]};`] : []),
      ...({ ' ': ['\\+'], '+': ['-'], '/': ['_'] }[letter] ?? []),
    ];
    return `\\\\*(?:${all.join('|')})`;
  });
  return `${letters.join('')}${text.length > patternMax ? '[^]*' : ''}`;
}

/** Returns a value's characters in base64 after other text, such as a name and a colon. */
function withinBase64(value: string): Readonly<Record<string, string>> {
  const bytes = Buffer.from(value);
  const part = (before: number): string => {
    const bits = 8 * (before + bytes.length);
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    // Characters at both ends contain bits of the neighbours.
    return text.slice(Math.ceil((8 * before) / 6), Math.floor(bits / 6));
  };
  return { '|in-base64': part(0), '|in-base64-1': part(1), '|in-base64-2': part(2) };
}

/** True if a text names a variable. */
export function isSecret(value: unknown): boolean {
  return typeof value === 'string' && value.search(variable) >= 0;
}
