import { ingestError } from '../errors.ts';
import { maskedMessage } from './answer.ts';

const variable = /\$\{(\w+)\}/g;
/** Length of a value that is masked, at least: a shorter one is no secret, and part of much. */
const lengthMin = 4;

/** Values of the variables that a declaration names as `${NAME}`: sent to the API, never shown. */
export class Secrets {
  readonly #environment: Readonly<Record<string, string | undefined>>;
  /** Forms in which the API may repeat a value, longest first, and the text in place of each. */
  #forms: readonly (readonly [form: string, mask: string])[] = [];
  /** The same for values with any of their characters escaped: these masks cannot be undone. */
  readonly #patterns: (readonly [pattern: RegExp, mask: string])[] = [];

  constructor(environment: Readonly<Record<string, string | undefined>>) {
    this.#environment = environment;
  }

  /** The text with values in place of names; throws `SOURCE_INVALID` with the name of a bad one. */
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
    // The value of Basic authentication is a name and a password in base64.
    const plain = Buffer.from(value, 'base64').toString();
    const [, password] = /^[\x20-\x7e]*?:([\x20-\x7e]+)$/.exec(plain) ?? [];
    if (password === undefined || Buffer.from(plain).toString('base64') !== value) return;
    this.#add(`${name}|plain`, plain);
    this.#add(`${name}|password`, password);
  }

  /** The text with names in place of values. */
  hide(text: string): string {
    return this.#patterns.reduce(
      (part, [pattern, mask]) => part.replace(pattern, mask),
      this.#withoutForms(text),
    );
  }

  /** The same for a text that is kept, so that {@link show} can undo it; throws if it cannot. */
  keep(text: string): string {
    const kept = this.#withoutForms(text);
    if (this.hide(text) === kept) return kept;
    const why = 'has a secret in it, escaped in an unknown way, and is not kept';
    throw ingestError('EXCHANGE_CHANGED', `the cursor ${this.hide(text)} ${why}`);
  }

  #withoutForms(text: string): string {
    return this.#forms.reduce((part, [form, mask]) => part.replaceAll(form, mask), text);
  }

  /** The text from which {@link keep} has made this one. */
  show(text: string): string {
    return this.#forms.reduce((part, [form, mask]) => part.replaceAll(mask, () => form), text);
  }

  /** Runs the work; errors of it have names in place of values. */
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

/** Characters of a value by which its escaped forms are found: a pattern of 2,000 overflows. */
const patternMax = 128;

/**
 * A pattern of a text: each character may be escaped as URLs, JSON or HTML do, also repeatedly. A
 * text that is longer than its pattern is masked with all that follows it.
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

/** The characters that a value makes in base64 after other text, such as a name and a colon. */
function withinBase64(value: string): Readonly<Record<string, string>> {
  const bytes = Buffer.from(value);
  const part = (before: number): string => {
    const bits = 8 * (before + bytes.length);
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    // Characters at both ends have bits of the neighbours in them.
    return text.slice(Math.ceil((8 * before) / 6), Math.floor(bits / 6));
  };
  return { '|in-base64': part(0), '|in-base64-1': part(1), '|in-base64-2': part(2) };
}

/** True if a text names a variable, and must not be shown with its value. */
export function isSecret(value: unknown): boolean {
  return typeof value === 'string' && value.search(variable) >= 0;
}
